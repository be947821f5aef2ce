"""Terrace: noise levels on terraces, and a sampler that remembers slopes and uses every draw of noise twice.

A denoiser is a function ``denoise(state, level)`` that returns its estimate of the clean array.
"""

from itertools import pairwise

import numpy as np


def allot(steps, terraces):
    """Return how many of ``steps`` each terrace gets, as a list; the last terrace is the quietest."""
    if not 1 <= terraces <= steps:
        raise ValueError(f"{steps} steps cannot fill {terraces} terraces")
    # <paper2code name="allotment of the steps">
    spare, total = steps - terraces, terraces * (terraces + 1) // 2
    counts = [1 + spare * (t + 1) // total for t in range(terraces)]
    # <paper2code name="steps that are left over">
    rests = [spare * (t + 1) % total for t in range(terraces)]
    neediest = sorted(range(terraces), key=lambda t: (rests[t], t), reverse=True)
    for t in neediest[: steps - sum(counts)]:
        counts[t] += 1
    # </paper2code name="steps that are left over">
    return counts
    # </paper2code name="allotment of the steps">


def noise_levels(steps, *, loudest=20.0, quietest=0.05, terraces=3):
    """Return the ``steps + 1`` noise levels from the loudest to zero, and the indices where terraces begin."""
    counts = allot(steps - 1, terraces)
    # <paper2code name="levels on the terraces">
    roots = np.sqrt(np.geomspace(loudest, quietest, terraces + 1))
    levels, landings = [], []
    for count, high, low in zip(counts, roots, roots[1:]):
        landings.append(len(levels))
        levels.extend((high + (low - high) * np.arange(count) / count) ** 2)
    return np.array([*levels, quietest, 0.0]), landings
    # </paper2code name="levels on the terraces">


def fold(values, bound):
    """Return values whose excess over ``bound`` is folded back, at most to zero."""
    # <paper2code name="folding at the bound">
    sizes = np.abs(values)
    return np.sign(values) * np.minimum(sizes, np.maximum(2.0 * bound - sizes, 0.0))
    # </paper2code name="folding at the bound">


def sample(denoise, shape, rng, *, steps=10, terraces=3, loudest=20.0, quietest=0.05, lift=0.3, bound=2.0):
    """Return one sample.

    Parameters
    ----------
    denoise:
        Called once for each step with the noisy array and its noise level.
    shape:
        Shape of the sample.
    rng:
        A ``numpy.random.Generator``, the only source of randomness.
    lift:
        How far the noise is raised at the second terrace, relative to its level.
    bound:
        Where estimates of the clean array are folded.
    """
    levels, landings = noise_levels(steps, loudest=loudest, quietest=quietest, terraces=terraces)
    noise = rng.standard_normal(shape)
    state = levels[0] * noise
    # <paper2code name="descent over the terraces">
    past = None
    for index, (level, lower) in enumerate(pairwise(levels)):
        # <paper2code name="lift at a landing">
        if index in landings[1:]:
            number = landings.index(index)
            noise = -noise if number % 2 else rng.standard_normal(shape)
            raised = level * (1.0 + lift / number)
            state = state + np.sqrt(raised**2 - level**2) * noise
            level, past = raised, None
        # </paper2code name="lift at a landing">
        slope = (state - fold(denoise(state, level), bound)) / level
        drop = level - lower
        # <paper2code name="slope with a memory">
        course = slope
        if past is not None and lower > 0.0:
            course = slope + 0.5 * min(drop / past[1], 0.75) * (slope - past[0])
        # </paper2code name="slope with a memory">
        state = state - drop * course
        past = (slope, drop)
    return state
    # </paper2code name="descent over the terraces">
