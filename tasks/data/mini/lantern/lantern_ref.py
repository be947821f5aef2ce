"""Reference for the hidden tests: one query, one key and one head at a time."""

import math

import numpy as np


def ring_of(i, j, rings, width):
    d = i - j if j <= i else 2 * (j - i)
    r, edge = 0, 0
    while d > edge and r < rings:
        edge += width * 2**r
        r += 1
    return r


def ring_numbers(queries, keys, *, rings=4, width=2):
    first = keys - queries
    return np.array([[ring_of(first + q, j, rings, width) for j in range(keys)] for q in range(queries)])


def sees(i, j, reach, glance, stride, anchors):
    if j < anchors:
        return True
    if i < anchors:
        return False
    if j in range(i - reach, i + glance + 1):
        return True
    return (j + 1) % stride == 0 and j + stride <= i


def visible_keys(queries, keys, *, reach=3, glance=1, stride=4, anchors=1):
    first = keys - queries
    return np.array([[sees(first + q, j, reach, glance, stride, anchors) for j in range(keys)] for q in range(queries)])


def toll(h, r, rings):
    paid = r
    if h % 2 and r:
        paid = rings - (r - 1)
    return paid / 2 ** ((h - h % 2) // 2)


def ring_toll(heads, table, *, rings=4):
    return np.array([[[toll(h, int(r), rings) for r in row] for row in table] for h in range(heads)])


def tempered_scores(q, k, seen):
    out = []
    for h in range(len(q)):
        g = h % len(k)
        head = []
        for i in range(len(q[h])):
            factor = math.log(1 + sum(map(int, seen[i])), 4)
            row = [factor * math.fsum(a * b for a, b in zip(q[h][i], kj)) / len(kj) ** 0.5 for kj in k[g]]
            if g:
                row = [s + (earlier / 4 if earlier > 0 else 0) for s, earlier in zip(row, out[-1][i])]
            head.append(row)
        out.append(head)
    return np.array(out)


def leaky_row(row, visible, leak):
    inside = [s for s, ok in zip(row, visible) if ok]
    b = sum(inside) / len(inside)
    # everything measured from the mean of the visible scores: another shift than the largest one
    total = sum(math.exp(s - b) for s in inside) + math.exp(-leak)
    return [math.exp(s - b) / total if ok else 0.0 for s, ok in zip(row, visible)]


def leaky_weights(scores, seen, *, leak=1.0):
    return np.array([[leaky_row(row, seen[i], leak) for i, row in enumerate(head)] for head in scores.tolist()])


def attend(q, k, v, *, leak=1.0):
    n, m = len(q[0]), len(k[0])
    seen = visible_keys(n, m)
    raw = tempered_scores(q, k, seen) - ring_toll(len(q), ring_numbers(n, m))
    shares = leaky_weights(raw, seen, leak=leak)
    out = np.zeros((len(q), n, len(v[0][0])))
    for h in range(len(q)):
        for i in range(n):
            rest = 1.0 - math.fsum(shares[h][i])
            count = sum(1 for ok in seen[i] if ok)
            for j in range(m):
                out[h, i] += shares[h][i][j] * v[h % len(v)][j]
                if seen[i][j]:
                    out[h, i] += rest / count * sum(group[j] for group in v) / len(v)
    return out
