"""Reference for the hidden tests: dictionaries from token to number, and a search that tries every continuation."""

import math


def loops(history, size, longest):
    """Return the tokens whose appending leaves the same block twice at the end (three times for a single token)."""
    closing = set()
    for token in range(size):
        text = [*history, token]
        if len(text) >= 3 and text[-1] == text[-2] == text[-3]:
            closing.add(token)
        for n in range(2, longest + 1):
            if len(text) >= 2 * n and text[-n:] == text[-2 * n : -n]:
                closing.add(token)
    return closing


class Sampler:
    def __init__(self, size, *, frugality=0.3, target=2.0, stake=0.5, longest=3):
        self.options = (size, frugality, target, stake, longest)
        self.owed = {}
        self.temperature = 1.0
        self.text = []

    def choose(self, logits, rng):
        size, frugality, target, stake, longest = self.options
        shut = loops(self.text, size, longest)
        open_tokens = [v for v in range(size) if v not in shut] or list(range(size))
        levels = {v: (float(logits[v]) + self.owed.get(v, 0.0)) / self.temperature for v in open_tokens}
        shift = math.log(math.fsum(math.exp(level) for level in levels.values()))
        p = {v: math.exp(level - shift) for v, level in levels.items()}
        best_first = []
        while len(best_first) < len(p):
            left = [v for v in p if v not in best_first]
            best_first.append(max(left, key=lambda v: (p[v], -v)))
        second = p[best_first[1]] if len(best_first) > 1 else p[best_first[0]]
        kept = []
        for v in best_first:
            if p[v] / second >= frugality and len(kept) < math.floor(2 + 3 * self.temperature):
                kept.append(v)
        chosen = kept[0]
        if len(kept) > 1:
            mark = rng.random() * math.fsum(p[v] for v in kept)
            for v in reversed(kept):
                chosen = v
                mark -= p[v]
                if mark <= 0:
                    break
        paid = 0.0
        self.owed = {v: 4 / 5 * credit for v, credit in self.owed.items()}
        for v in kept:
            if v != chosen:
                self.owed[v] = self.owed.get(v, 0.0) + p[v] * stake
                paid += p[v] * stake
        self.owed[chosen] = self.owed.get(chosen, 0.0) - paid
        self.owed = {v: max(-2.0, min(2.0, credit)) for v, credit in self.owed.items()}
        if len(kept) >= 2:
            bits = math.log(1 / p[chosen], 2)
            bits = 6 if bits > 6 else bits
            self.temperature = min(4, max(1 / 4, self.temperature * math.exp(math.log(2) * (target - bits) / 4)))
        self.text.append(chosen)
        return chosen
