"""Reference for the hidden tests: water as dictionaries, the order by following each basin, floods by marks."""

import math


def hops(name, network):
    below = network[name][3]
    return 0 if below is None else 1 + hops(below, network)


def order_of(network):
    names = sorted(network)
    names.sort(key=lambda name: hops(name, network), reverse=True)
    return names


def soak(rain, thirst=25.0, memory=0.85):
    ground, result = 0.0, []
    for r in rain:
        g = ground + r - r / 2
        share = 1 - thirst / (thirst + g)
        result.append(r * share)
        ground = (ground + r * (1 - share)) * memory
    return result


def released(volume, capacity, rate):
    bed = capacity * 0.125
    if volume - bed <= 0:
        return 0
    total = rate * volume
    high = volume - capacity / 2
    if high > 0:
        total += 2 * rate * math.sqrt(high**3 / capacity)
    return total if total < volume * 3 / 4 else volume * 3 / 4


def day(water, falling, network):
    """Return (new storage, report) for dictionaries of storage and inflow."""
    stock, coming = dict(water), dict(falling)
    report = []
    for name in order_of(network):
        old, new = stock[name], coming[name]
        q = released(old + new / 2, network[name][1], network[name][2])
        rest = old + new - q
        over = rest - network[name][1] if rest > network[name][1] else 0
        stock[name] = rest - over
        gone = 0
        for amount, target in ((q, network[name][3]), (over, network.get(network[name][3], [None] * 4)[3])):
            if target:
                coming[target] += amount
            else:
                gone += amount
        report.append((name, q, over, gone))
    return stock, report


def events(series, threshold, ease=0.8, gap=2):
    marks, wet = [], False
    for q in series:
        wet = q >= ease * threshold if wet else q > threshold
        marks.append(wet)
    for i in range(len(marks)):
        # a short dry stretch between two wet days is wet
        for j in range(i + 1, min(i + gap + 1, len(marks))):
            if marks[i] and marks[j] and not any(marks[i + 1 : j]):
                marks[i:j] = [True] * (j - i)
    result, i = [], 0
    while i < len(marks):
        if not marks[i]:
            i += 1
            continue
        j = i
        while j + 1 < len(marks) and marks[j + 1]:
            j += 1
        top = max(series[i : j + 1])
        peak = [k for k in range(i, j + 1) if series[k] == top][-1]
        result.append((i, j, peak, math.fsum(series[i : j + 1]) - threshold * (j + 1 - i)))
        i = j + 1
    return result
