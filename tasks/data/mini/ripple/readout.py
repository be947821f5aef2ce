"""Ripple, second half: from waves to node features, node scores and one vector for the graph."""

import math

import numpy as np
from propagation import propagate


def node_features(edges, signal, *, hops=3, restart=0.4):
    """Return one row per node: the waves of all hops side by side, on a square-root scale."""
    # <paper2code name="parity order of the hops and square-root scale">
    waves = propagate(edges, signal, hops=hops, restart=restart)
    ordered = waves[0::2] + waves[1::2][::-1]
    wide = np.concatenate(ordered, axis=1)
    return np.sign(wide) * np.sqrt(np.abs(wide))
    # </paper2code name="parity order of the hops and square-root scale">


def rank_scores(values):
    """Return the arcsine rank score of each entry of a vector, in (0, 1); equal entries get equal scores."""
    values = np.asarray(values, dtype=float)
    # <paper2code name="arcsine rank score">
    ranks = np.searchsorted(np.sort(values), values, side="right")
    return np.arcsin(np.sqrt((ranks - 0.5) / values.size)) * 2.0 / np.pi
    # </paper2code name="arcsine rank score">


def pool(features, scores, *, keep=None):
    """Return one vector: a weighted mean of the feature rows of the ``keep`` nodes with the best scores."""
    features = np.asarray(features, dtype=float)
    # <paper2code name="pooling of the best nodes">
    count = len(features)
    if keep is None:
        keep = math.ceil(math.sqrt(count))
    best = sorted(range(count), key=lambda node: (-scores[node], node))[:keep]
    shares = (np.arange(len(best)) + 2.0) ** -1.0
    shares = shares / shares.sum()
    return shares @ features[best]
    # </paper2code name="pooling of the best nodes">


def graph_embedding(edges, signal, *, hops=3, restart=0.4, keep=None):
    """Return one vector for the whole graph; nodes are scored by the size of their feature rows."""
    features = node_features(edges, signal, hops=hops, restart=restart)
    scores = rank_scores(np.linalg.norm(features, axis=1))
    return pool(features, scores, keep=keep)
