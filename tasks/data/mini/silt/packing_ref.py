"""Reference for the hidden tests: integer arithmetic on Python lists, one entry after another."""

import math


def settle(signal, floor=0.125):
    """Return (settled list, number moved); the argument is left alone."""
    out = [float(v) for v in signal]
    threshold = floor * max(abs(v) for v in out)
    solid = [abs(v) >= threshold for v in out]
    count = 0
    for i, v in enumerate(signal):
        if solid[i] or v == 0:
            continue
        j = i
        while j >= 0 and not solid[j]:
            j -= 1
        if j < 0:
            j = solid.index(True)
        out[j] += float(v)
        out[i] = 0.0
        count += 1
    return out, count


def scale_of(row, largest):
    loudest = max(abs(v) for v in row)
    if not loudest:
        return float(1)
    h = round(math.log(loudest / largest) / math.log(math.sqrt(2)))
    h = h if h > -40 else -40
    return 2.0 ** (h // 2) * (math.sqrt(2.0) if h % 2 else 1.0)


def value_of(code, step, largest):
    if code == largest:
        return step * (code + 0.25)
    if code == -largest:
        return step * (code - 0.25)
    return step * code


def encode(row, step, largest, flip):
    line = list(reversed(row)) if flip else list(row)
    result, error = [], 0.0
    for v in line:
        target = v + error * 3 / 4
        n = int(abs(target) / step + 0.5)
        n = largest if n > largest else n
        signed = n if target >= 0 else 0 - n
        result.append(signed)
        error = target - value_of(signed, step, largest)
        if error > step:
            error = step
        if error < -step:
            error = -step
    return result[::-1] if flip else result


def check(row):
    total, w = 0, 1
    for code in row:
        total += w * code
        w += 2
    return total % 31


def pack(signal, block=8, bits=5):
    largest = (1 << (bits - 1)) - 1
    data = [float(v) for v in signal]
    n = len(data)
    table = [data[start : start + block] for start in range(0, n, block)]
    average = sum(table[-1]) / len(table[-1])
    while len(table[-1]) < block:
        table[-1].append(average)
    steps = [scale_of(row, largest) for row in table]
    numbers = [encode(row, steps[k], largest, bool(k & 1)) for k, row in enumerate(table)]
    return {
        "codes": numbers,
        "scales": steps,
        "checks": [check(row) for row in numbers],
        "length": n,
        "top": largest,
    }


def unpack(bundle):
    flat = []
    for row, step in zip(bundle["codes"], bundle["scales"]):
        flat.extend(value_of(code, step, bundle["top"]) for code in row)
    return flat[: bundle["length"]]
