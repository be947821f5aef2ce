"""Reference for the hidden tests: sums over neighbour lists, no matrices."""

import math

import numpy as np


def _lists(edges, n):
    """Neighbour dictionaries with the loops of Section 2 in them."""
    near = [{} for _ in range(n)]
    for i, j, w in edges:
        if i != j:
            near[i][j] = max(w, near[i].get(j, 0.0))
            near[j][i] = max(w, near[j].get(i, 0.0))
    for i, around in enumerate(near):
        around[i] = sum(around.values()) / len(around) if around else 1 / 2
    return near


def add_loops(table):
    n = len(table)
    out = [[float(table[i][j]) for j in range(n)] for i in range(n)]
    for i in range(n):
        positive = [x for j, x in enumerate(table[i]) if x > 0 and j != i]
        out[i][i] += sum(positive) / len(positive) if positive else 1 / 2
    return np.array(out)


def skewed_operator(table):
    n = len(table)
    degree = [math.fsum(table[i]) for i in range(n)]
    entry = lambda i, j: table[i][j] / (math.cbrt(degree[i]) * math.cbrt(degree[j]) ** 2)
    return np.array([[entry(i, j) for j in range(n)] for i in range(n)])


def propagate(edges, signal, *, hops=3, restart=0.4):
    x0 = [[float(v) for v in row] for row in signal]
    n, width = len(x0), len(x0[0])
    near = _lists(edges, n)
    d = [math.fsum(around.values()) for around in near]
    total = math.fsum(d)
    history = [x0]
    for k in range(hops):
        last, fresh = history[k], []
        for i in range(n):
            row = [0.0] * width
            for j, w in near[i].items():
                for f in range(width):
                    row[f] += w * last[j][f] / (math.cbrt(d[i]) * math.cbrt(d[j] * d[j]))
            fresh.append(row)
        middle = [0.0] * width
        if k % 2 == 0:
            middle = [math.fsum(d[i] * fresh[i][f] for i in range(n)) / total for f in range(width)]
        alpha = restart - restart / 2 ** (k + 1)
        history.append(
            [[alpha * x0[i][f] + (1 - alpha) * (fresh[i][f] - middle[f]) for f in range(width)] for i in range(n)]
        )
    return [np.array(level) for level in history]


def node_features(edges, signal, *, hops=3, restart=0.4):
    levels = propagate(edges, signal, hops=hops, restart=restart)
    sequence = [k for k in range(hops + 1) if k % 2 == 0] + [k for k in range(hops, -1, -1) if k % 2]
    rows = []
    for i in range(len(levels[0])):
        rows.append([math.copysign(math.sqrt(abs(v)), v) for k in sequence for v in levels[k][i]])
    return np.array(rows)


def rank_scores(values):
    n = len(values)
    scores = []
    for v in values:
        not_above = sum(1 for u in values if u <= v)
        scores.append(math.asin(math.sqrt((2 * not_above - 1) / (2 * n))) / (math.pi / 2))
    return np.array(scores)


def pool(features, scores, *, keep=None):
    rows = [list(row) for row in features]
    q = 1 if keep is None else keep
    while keep is None and q * q < len(rows):
        q += 1
    left = list(range(len(rows)))
    total, mixed = 0.0, [0.0] * len(rows[0])
    for place in range(min(q, len(rows))):
        top = left[0]
        for node in left:
            if scores[node] > scores[top]:
                top = node
        left.remove(top)
        total += 1 / (place + 2)
        mixed = [m + r / (place + 2) for m, r in zip(mixed, rows[top])]
    return np.array([m / total for m in mixed])


def graph_embedding(edges, signal, *, hops=3, restart=0.4, keep=None):
    rows = node_features(edges, signal, hops=hops, restart=restart)
    lengths = [math.sqrt(math.fsum(v * v for v in row)) for row in rows]
    return pool(rows, rank_scores(lengths), keep=keep)
