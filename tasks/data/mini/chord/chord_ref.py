"""Reference for the hidden tests: the loss alone, number by number in complex arithmetic.

Gradients come from the complex step: the imaginary part that a tiny imaginary change of one entry leaves in the loss.
"""

import cmath
import math

STEP = 1e-30


def unit(vector):
    size = cmath.sqrt(sum(x * x for x in vector) + 1 / 100)
    return [x / size for x in vector]


def one_way(a, b, kappa):
    bests = []
    for u in a:
        terms = [cmath.exp(kappa * sum(x * y for x, y in zip(u, w))) for w in b]
        bests.append(cmath.log(sum(terms) / len(terms)) / kappa)
    if len(bests) > 2:
        bests.remove(min(bests, key=lambda z: z.real))
    return sum(bests) / len(bests)


def similarity(a, b, kappa=5.0):
    return one_way(a, b, kappa) * 2 / 3 + one_way(b, a, kappa) / 3


def loss(left, right, kinds, *, temperature=0.2, margin=0.1, calm=0.05, sharpness=5.0):
    both = [k for k in left if k in right]
    units = {k: [unit(v) for v in bag] for k, bag in right.items()}
    total, whole = 0, 0.0
    for k in both:
        mine = [unit(v) for v in left[k]]
        terms = {}
        for other, theirs in units.items():
            s = similarity(mine, theirs, sharpness)
            if other == k:
                terms[other] = cmath.exp((s - margin) / temperature)
            elif k in kinds and other in kinds and kinds[k] == kinds[other]:
                terms[other] = cmath.exp(s / temperature) / 4
            else:
                terms[other] = cmath.exp(s / temperature)
        surprise = cmath.log(sum(terms.values()) / terms[k])
        heavy = math.sqrt(len(mine))
        whole += heavy
        if surprise.real > calm:
            total = total + heavy * (surprise - calm)
    return total / whole


def slopes(left, right, kinds, **options):
    """Return the gradients of all entries, as two dictionaries of nested lists."""
    sides = tuple({k: [[complex(x) for x in v] for v in bag] for k, bag in side.items()} for side in (left, right))
    found = []
    for side in sides:
        gradient = {}
        for key, bag in side.items():
            gradient[key] = [[0.0] * len(vector) for vector in bag]
            for r, vector in enumerate(bag):
                for c in range(len(vector)):
                    vector[c] += STEP * 1j
                    gradient[key][r][c] = complex(loss(*sides, kinds, **options)).imag / STEP
                    vector[c] -= STEP * 1j
        found.append(gradient)
    return found
