"""Reference for the hidden tests: exact fractions for the allotment, one number after another for the rest."""

import math
from fractions import Fraction

import numpy as np


def allot(steps, terraces):
    wish = [Fraction((steps - terraces) * k, sum(range(terraces + 1))) for k in range(1, terraces + 1)]
    given = [math.floor(w) for w in wish]
    while sum(given) < steps - terraces:
        best = terraces - 1
        for k in range(terraces - 1, -1, -1):
            if wish[k] - given[k] > wish[best] - given[best]:
                best = k
        given[best] += 1
    return [g + 1 for g in given]


def noise_levels(steps, *, loudest=20.0, quietest=0.05, terraces=3):
    out, starts = [], []
    fall = (math.log(loudest) - math.log(quietest)) / terraces
    for k, n in enumerate(allot(steps - 1, terraces)):
        starts.append(len(out))
        top, foot = (math.exp((math.log(loudest) - fall * e) / 2) for e in (k, k + 1))
        out += [math.pow(top * (1 - j / n) + foot * j / n, 2) for j in range(n)]
    return out + [quietest, 0], starts


def fold_one(v, bound):
    if abs(v) <= bound:
        return v
    return math.copysign(max(bound - (abs(v) - bound), 0), v)


def fold(values, bound):
    return np.vectorize(lambda v: fold_one(float(v), bound))(values)


def sample(denoise, shape, rng, *, steps=10, terraces=3, loudest=20.0, quietest=0.05, lift=0.3, bound=2.0):
    sigmas, starts = noise_levels(steps, loudest=loudest, quietest=quietest, terraces=terraces)
    draw = rng.standard_normal(shape)
    x = np.multiply(draw, loudest)
    terrace = 0
    before, width = None, None
    for k in range(steps):
        here = sigmas[k]
        if k > 0 and k in starts:
            terrace += 1
            draw = draw * -1 if terrace in (1, 3, 5, 7) else rng.standard_normal(shape)
            extra = (1 + lift / terrace) ** 2 - 1
            x = x + here * math.sqrt(extra) * draw
            here *= 1 + lift / terrace
            before = None
        clean = fold(denoise(x, here), bound)
        direction = x / here - clean / here
        gap = here - sigmas[k + 1]
        use = direction
        if before is not None and k != steps - 1:
            share = gap / width if 4 * gap < 3 * width else 3 / 4
            use = direction * (1 + share / 2) - before * share / 2
        x = x - gap * use
        before, width = direction, gap
    return x
