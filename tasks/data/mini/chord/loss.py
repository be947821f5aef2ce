"""Chord: a contrastive loss between bags of vectors, with its gradient worked out by hand.

A bag is an array with one vector per row; the two sides of a batch are dictionaries from a key to a bag. Bags that
share their key on both sides belong together.
"""

import numpy as np

SOFTNESS = 0.01
KINSHIP = 0.25


def soft_units(rows):
    """Return rows brought to a length just below one, and the soft lengths they were divided by (a column)."""
    # <paper2code name="soft unit length">
    lengths = np.sqrt((rows**2).sum(axis=1, keepdims=True) + SOFTNESS)
    return rows / lengths, lengths
    # </paper2code name="soft unit length">


def through_length(push, units, lengths):
    """Return the gradient in the rows of ``soft_units`` from the gradient ``push`` in its first result."""
    # <paper2code name="gradient through the soft length">
    along = np.sum(push * units, axis=1, keepdims=True)
    return (push - along * units) / lengths
    # </paper2code name="gradient through the soft length">


def best_partners(cosines, *, sharpness):
    """Return the mean soft best of the rows of a table of cosines, and its gradient in every cosine."""
    # <paper2code name="soft best of every row">
    bright = np.exp(sharpness * cosines)
    best = np.log(bright.mean(axis=1)) / sharpness
    # <paper2code name="row that is left out">
    shares = np.ones(len(best))
    if len(best) >= 3:
        shares[np.argmin(best)] = 0.0
    shares = shares / shares.sum()
    # </paper2code name="row that is left out">
    slope = shares[:, None] * bright / bright.sum(axis=1, keepdims=True)
    return float(shares @ best), slope
    # </paper2code name="soft best of every row">


def match(first, second, *, sharpness=5.0):
    """Return the similarity of two bags of unit rows and its gradient in the table of their cosines."""
    # <paper2code name="match of two bags">
    cosines = first @ second.T
    there, slope_there = best_partners(cosines, sharpness=sharpness)
    back, slope_back = best_partners(cosines.T, sharpness=sharpness)
    return (2.0 * there + back) / 3.0, (2.0 * slope_there + slope_back.T) / 3.0
    # </paper2code name="match of two bags">


def rival_logits(similarities, pairs, rivals, kinds, *, temperature=0.2, margin=0.1):
    """Return logits, one row for each key of ``pairs``, one column for each key of ``rivals``.

    ``similarities`` is a dictionary from ``(pair, rival)`` to a number, ``kinds`` one from some keys to their kind.
    """
    logits = np.empty((len(pairs), len(rivals)))
    for row, key in enumerate(pairs):
        for column, other in enumerate(rivals):
            # <paper2code name="margin of the partner and discount for kin">
            logit = similarities[key, other] / temperature
            if other == key:
                logit -= margin / temperature
            elif other in kinds and kinds[other] == kinds.get(key):
                logit += np.log(KINSHIP)
            # </paper2code name="margin of the partner and discount for kin">
            logits[row, column] = logit
    return logits


def pair_losses(logits, own, sizes, *, calm=0.05):
    """Return the loss of a batch and its gradient in the logits.

    ``own`` holds the column of every row's partner, ``sizes`` the number of vectors in every row's bag.
    """
    # <paper2code name="losses of the pairs and the calm ones">
    rows = np.arange(len(own))
    light = np.exp(logits - logits.max(axis=1, keepdims=True))
    chances = light / light.sum(axis=1, keepdims=True)
    losses = -np.log(chances[rows, own])
    weights = np.sqrt(sizes) / np.sqrt(sizes).sum()
    chances[rows, own] -= 1.0
    gradient = (weights * (losses > calm))[:, None] * chances
    return float(weights @ np.maximum(losses - calm, 0.0)), gradient
    # </paper2code name="losses of the pairs and the calm ones">


def chord_loss(left, right, kinds, *, temperature=0.2, margin=0.1, calm=0.05, sharpness=5.0):
    """Return the loss and its gradients in the vectors of ``left`` and ``right``, as dictionaries like these.

    Keys of ``left`` without a partner are passed over; those of ``right`` are rivals of all others.
    """
    rivals = sorted(right)
    pairs = [key for key in sorted(left) if key in right]
    if not pairs:
        raise ValueError("no key is on both sides")
    lefts = {key: soft_units(np.asarray(bag, dtype=float)) for key, bag in left.items()}
    rights = {key: soft_units(np.asarray(bag, dtype=float)) for key, bag in right.items()}
    matches = {(a, b): match(lefts[a][0], rights[b][0], sharpness=sharpness) for a in pairs for b in rivals}
    similarities = {names: matched[0] for names, matched in matches.items()}
    logits = rival_logits(similarities, pairs, rivals, kinds, temperature=temperature, margin=margin)
    sizes = np.array([len(left[key]) for key in pairs])
    loss, pull = pair_losses(logits, [rivals.index(key) for key in pairs], sizes, calm=calm)
    # <paper2code name="gradients of all bags">
    pushes_left = {key: np.zeros_like(units) for key, (units, _) in lefts.items()}
    pushes_right = {key: np.zeros_like(units) for key, (units, _) in rights.items()}
    for (key, other), (_, slope) in matches.items():
        force = pull[pairs.index(key), rivals.index(other)] / temperature * slope
        pushes_left[key] += force @ rights[other][0]
        pushes_right[other] += force.T @ lefts[key][0]
    gradients_left = {key: through_length(push, *lefts[key]) for key, push in pushes_left.items()}
    gradients_right = {key: through_length(push, *rights[key]) for key, push in pushes_right.items()}
    # </paper2code name="gradients of all bags">
    return loss, gradients_left, gradients_right
