"""Reference for the hidden tests: the same method, one scalar at a time, without numpy arrays inside."""

import math

import numpy as np


def _sign(number):
    return (number > 0) - (number < 0)


class Tidal:
    """Holds flat Python lists; the array attributes are views built on request."""

    def __init__(self, weights, *, rate=0.1, inertia=0.9, ramp=4, wall=3.0, pull=0.5, period=5):
        start = np.array(weights, dtype=float)
        self._shape = start.shape
        self._x = start.ravel().tolist()
        self._a = list(self._x)
        self._v = [0.0] * len(self._x)
        self._q = [0.0] * len(self._x)
        self._tau = [0] * len(self._x)
        self._options = (rate, inertia, ramp, wall, pull, period)
        self.steps = 0

    def _array(self, values, kind=float):
        return np.array(values, dtype=kind).reshape(self._shape)

    @property
    def weights(self):
        return self._array(self._x)

    @property
    def anchor(self):
        return self._array(self._a)

    @property
    def velocity(self):
        return self._array(self._v)

    @property
    def mass(self):
        return self._array(self._q)

    @property
    def tide(self):
        return self._array(self._tau, int)

    def learning_rate(self):
        rate, _, ramp, _, _, _ = self._options
        t = self.steps
        if t > ramp:
            return rate / math.sqrt(math.sqrt(t - ramp))
        fraction = t / (1 + ramp)
        return rate * fraction * math.sqrt(fraction)

    def breakwater(self, gradient):
        shape = np.shape(gradient)
        flat = np.ravel(gradient).tolist()
        magnitudes = sorted(abs(g) for g in flat if g != 0.0)
        if not magnitudes:
            return np.array(flat).reshape(shape)
        count = len(magnitudes)
        lower = magnitudes[count // 2] if count % 2 else magnitudes[count // 2 - 1]
        limit = self._options[3] * lower
        compressed = []
        for g in flat:
            if abs(g) <= limit:
                compressed.append(g)
            else:
                compressed.append(_sign(g) * limit * (1.0 + math.log(abs(g) / limit)))
        return np.array(compressed).reshape(shape)

    def step(self, gradient):
        _, inertia, _, _, pull, period = self._options
        raw = np.ravel(np.array(gradient, dtype=float)).tolist()
        if all(not math.isfinite(g) for g in raw):
            return float(0)
        clean = [g if math.isfinite(g) else 0.0 for g in raw]
        self.steps = self.steps + 1
        directions = []
        compressed = self.breakwater(clean).tolist()
        for i, g in enumerate(clean):
            product = _sign(g) * _sign(self._v[i])
            if product == 1:
                moved = self._tau[i] + 1
            elif product == -1:
                moved = self._tau[i] - 2
            else:
                moved = self._tau[i] - _sign(self._tau[i])
            self._tau[i] = min(5, max(-3, moved))
            b = max(0.0, 1.0 - (1.0 - inertia) / math.sqrt(2.0) ** self._tau[i])
            self._v[i] = b * self._v[i] + (1.0 - b) * compressed[i]
            self._q[i] = b * self._q[i] + (1.0 - b)
            directions.append(self._v[i] / self._q[i])
        spread = math.sqrt(sum(d * d for d in directions) / len(directions))
        shrink = 1.0 / spread if spread > 1.0 else 1.0
        step_size = self.learning_rate()
        travelled = 0.0
        for i, d in enumerate(directions):
            start = self._x[i]
            target = start - step_size * shrink * d
            if self._tau[i] <= -1:
                weight = step_size * pull
                target = (1.0 - weight) * target + weight * self._a[i]
            travelled += (target - start) ** 2
            self._x[i] = target
        if not self.steps % period:
            self._a = [old + (new - old) / 3.0 for old, new in zip(self._a, self._x)]
            self._tau = [_sign(level) * (abs(level) // 2) for level in self._tau]
        return math.sqrt(travelled / len(directions))
