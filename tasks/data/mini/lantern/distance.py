"""Lantern, first half: which keys a query sees, how far away they are, and what each head makes of that.

There may be more keys than queries: the queries are the last positions, the keys before them are a memory.
"""

import numpy as np


def ring_numbers(queries, keys, *, rings=4, width=2):
    """Return the ring of every key around every query, queries x keys, integers from 0 to ``rings``."""
    _check_lengths(queries, keys)
    # <paper2code name="rings of doubling width">
    ahead = np.arange(keys) - np.arange(keys - queries, keys)[:, None]
    paces = np.abs(ahead) + np.maximum(ahead, 0)
    return np.minimum(np.ceil(np.log2(1.0 + paces / width)), rings).astype(int)
    # </paper2code name="rings of doubling width">


def visible_keys(queries, keys, *, reach=3, glance=1, stride=4, anchors=1):
    """Return which keys every query sees, queries x keys, as a table of booleans.

    Parameters
    ----------
    queries, keys:
        How many there are of each; the queries come last.
    reach, glance:
        How far the window goes back and ahead.
    stride:
        Distance of the milestones from one another.
    anchors:
        Number of anchors at the beginning.
    """
    _check_lengths(queries, keys)
    # <paper2code name="visible keys">
    spot = np.arange(keys - queries, keys)[:, None]
    place = np.arange(keys)[None, :]
    window = (spot - place <= reach) & (place - spot <= glance)
    milestone = (place % stride == stride - 1) & (spot - place >= stride)
    anchor = place < anchors
    return anchor | (window | milestone) & (spot >= anchors)
    # </paper2code name="visible keys">


def ring_toll(heads, ring, *, rings=4):
    """Return what is taken off the scores, heads x queries x keys, for a table of ring numbers."""
    # <paper2code name="near-sighted and far-sighted heads">
    head = np.arange(heads)[:, None, None]
    far = (head % 2 == 1) & (ring > 0)
    return 0.5 ** (head // 2) * np.where(far, rings + 1 - ring, ring)
    # </paper2code name="near-sighted and far-sighted heads">


def _check_lengths(queries, keys):
    if not 0 < queries <= keys:
        raise ValueError(f"{queries} queries cannot be the last of {keys} positions")
