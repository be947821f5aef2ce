"""Lantern, second half: tempered scores, a normalisation that leaks, and the afterglow of what leaked."""

import numpy as np
from distance import ring_numbers, ring_toll, visible_keys

ECHO = 0.25


def tempered_scores(queries, keys, seen):
    """Return the scores of all heads, heads x queries x keys.

    ``queries`` are heads x length x width, ``keys`` groups x length x width with fewer or as many groups, and
    ``seen`` is the table of ``visible_keys``.
    """
    groups, _, width = keys.shape
    # <paper2code name="tempered scores of all heads">
    warmth = np.log2(1.0 + seen.sum(axis=1)) / 2.0
    scores = []
    for head, query in enumerate(queries):
        score = warmth[:, None] * (query @ keys[head % groups].T) / np.sqrt(width)
        # <paper2code name="echo of the head before">
        if head % groups > 0:
            score = score + ECHO * np.maximum(scores[-1], 0.0)
        # </paper2code name="echo of the head before">
        scores.append(score)
    return np.stack(scores)
    # </paper2code name="tempered scores of all heads">


def leaky_weights(scores, seen, *, leak=1.0):
    """Return weights shaped like ``scores``; keys that are not seen get none, and no row adds up to one."""
    # <paper2code name="leaky normalisation">
    lit = np.where(seen, scores, -np.inf)
    top = lit.max(axis=2, keepdims=True)
    light = np.exp(lit - top)
    level = np.where(seen, scores, 0.0).sum(axis=2) / seen.sum(axis=1)
    lost = np.exp(level[:, :, None] - leak - top)
    return light / (light.sum(axis=2, keepdims=True) + lost)
    # </paper2code name="leaky normalisation">


def attend(queries, keys, values, *, leak=1.0):
    """Return the output of every head, heads x queries x width of the values.

    Keys and values come in groups; the number of heads must be a multiple of the number of groups.
    """
    heads, groups = len(queries), len(keys)
    if heads % groups or len(values) != groups:
        raise ValueError(f"{heads} heads cannot share {groups} groups of keys and {len(values)} of values")
    ring = ring_numbers(queries.shape[1], keys.shape[1])
    seen = visible_keys(queries.shape[1], keys.shape[1])
    scores = tempered_scores(queries, keys, seen) - ring_toll(heads, ring)
    weights = leaky_weights(scores, seen, leak=leak)
    # <paper2code name="own values and the common afterglow">
    glow = (seen / seen.sum(axis=1, keepdims=True)) @ values.mean(axis=0)
    spilled = 1.0 - weights.sum(axis=2, keepdims=True)
    own = np.stack([weights[head] @ values[head % groups] for head in range(heads)])
    return own + spilled * glow
    # </paper2code name="own values and the common afterglow">
