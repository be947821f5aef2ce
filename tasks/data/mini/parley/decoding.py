"""Parley: choosing tokens one by one, with credit for those that were passed over and a heat that follows surprise."""

import numpy as np


class Parley:
    """A sampler that keeps its state from token to token; one object serves one sequence.

    Parameters
    ----------
    size:
        Number of tokens of the vocabulary, at least 2; tokens are numbered from 0.
    frugality:
        How likely a token must be to come onto the shortlist, relative to the runner-up.
    target:
        Surprise in bits at which the heat stands still.
    stake:
        How much of its probability a token gets as credit when it is passed over.
    longest:
        Longest period of a loop that is looked for.
    """

    def __init__(self, size, *, frugality=0.3, target=2.0, stake=0.5, longest=3):
        if size < 2:
            raise ValueError("a vocabulary has at least two tokens")
        self.size = size
        self.frugality = frugality
        self.target = target
        self.stake = stake
        self.longest = longest
        self.credits = np.zeros(size)
        self.heat = 1.0
        self.history = []

    def closing(self):
        """Return the set of tokens that would close a loop if one of them came next."""
        # <paper2code name="tokens that would close a loop">
        recent, found = self.history[::-1], set()
        for period in range(1, min(self.longest, len(recent)) + 1):
            overlap = max(period - 1, 1)
            if recent[:overlap] == recent[period : period + overlap]:
                found.add(recent[period - 1])
        return found
        # </paper2code name="tokens that would close a loop">

    def shortlist(self, chances):
        """Return the tokens that may be chosen, as a list, the most likely one first."""
        # <paper2code name="shortlist">
        ranked = sorted(np.flatnonzero(chances).tolist(), key=lambda token: -chances[token])
        runner_up = ranked[min(1, len(ranked) - 1)]
        most = 2 + int(3.0 * self.heat)
        return [token for token in ranked[:most] if chances[token] >= self.frugality * chances[runner_up]]
        # </paper2code name="shortlist">

    def choose(self, logits, rng):
        """Return the next token, as an integer; ``rng`` is a ``numpy.random.Generator``."""
        logits = np.asarray(logits, dtype=float)
        if logits.shape != (self.size,) or not np.isfinite(logits).all():
            raise ValueError(f"expected {self.size} finite logits")
        # <paper2code name="one choice">
        scores = (logits + self.credits) / self.heat
        closing = sorted(self.closing())
        if len(closing) < self.size:
            scores[closing] = -np.inf
        light = np.exp(scores - scores.max())
        chances = light / light.sum()
        listed = self.shortlist(chances)
        # <paper2code name="drawing from the shortlist">
        token = listed[0]
        if len(listed) > 1:
            ascending = listed[::-1]
            heights = np.cumsum(chances[ascending])
            token = ascending[int(np.searchsorted(heights, rng.random() * heights[-1]))]
        # </paper2code name="drawing from the shortlist">
        # <paper2code name="credit of the tokens passed over">
        gains = np.zeros(self.size)
        gains[listed] = self.stake * chances[listed]
        gains[token] -= gains.sum()
        self.credits = np.minimum(np.maximum(0.8 * self.credits + gains, -2.0), 2.0)
        # </paper2code name="credit of the tokens passed over">
        # <paper2code name="heat after a choice">
        if len(listed) >= 2:
            surprise = min(-np.log2(chances[token]), 6.0)
            warmer = self.heat * 2.0 ** ((self.target - surprise) / 4.0)
            self.heat = float(min(max(warmer, 0.25), 4.0))
        # </paper2code name="heat after a choice">
        self.history.append(token)
        return token
        # </paper2code name="one choice">
