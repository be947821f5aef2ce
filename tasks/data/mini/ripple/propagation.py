"""Ripple, first half: how a signal spreads over a graph, hop by hop."""

import numpy as np
from graph import neighbour_counts, weight_matrix


def add_loops(matrix):
    """Return ``matrix`` with a loop at every node, so that a node listens to itself as much as to a neighbour."""
    # <paper2code name="weights of the self loops">
    neighbours = neighbour_counts(matrix)
    loops = np.full(len(matrix), 0.5)
    linked = neighbours > 0
    loops[linked] = matrix[linked].sum(axis=1) / neighbours[linked]
    return matrix + np.diag(loops)
    # </paper2code name="weights of the self loops">


def skewed_operator(looped):
    """Return the propagation operator of a weight matrix with loops: receivers and senders count differently."""
    strength = looped.sum(axis=1)
    receiving = strength ** (-1.0 / 3.0)
    sending = strength ** (-2.0 / 3.0)
    return receiving[:, None] * looped * sending[None, :]


def propagate(edges, signal, *, hops=3, restart=0.4):
    """Return the waves of hops 0 to ``hops`` as a list of arrays shaped like ``signal``.

    Parameters
    ----------
    edges:
        Triples ``(i, j, weight)``; see ``graph.weight_matrix``.
    signal:
        One row of features for every node.
    hops:
        Number of times the signal is passed on; 0 returns only the signal itself.
    restart:
        How much of the signal comes back in late hops, in [0, 1].
    """
    signal = np.asarray(signal, dtype=float)
    looped = add_loops(weight_matrix(edges, len(signal)))
    operator = skewed_operator(looped)
    # <paper2code name="waves with a growing restart">
    waves = [signal]
    for hop in range(1, hops + 1):
        wave = operator @ waves[-1]
        # <paper2code name="centring of the odd hops">
        if hop % 2 == 1:
            degrees = looped @ np.ones(len(looped))
            wave = wave - (degrees @ wave) / degrees.sum()
        # </paper2code name="centring of the odd hops">
        share = restart * (1.0 - 0.5**hop)
        waves.append((1.0 - share) * wave + share * signal)
    return waves
    # </paper2code name="waves with a growing restart">
