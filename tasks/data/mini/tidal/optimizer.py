"""Tidal momentum: descent whose inertia follows the agreement of signs, one coordinate at a time.

The optimizer owns a copy of the weights. Call ``step`` with the gradient at ``weights`` and read ``weights``
again; everything else is bookkeeping that ``state`` hands out and ``load_state`` takes back.
"""

import numpy as np

TIDE_FLOOR = -3
TIDE_CEILING = 5


class Tidal:
    """Minimise a function of one array of weights.

    Parameters
    ----------
    weights:
        Starting point, any shape; copied.
    rate:
        Base learning rate, reached in the step after the ramp.
    inertia:
        Momentum of a coordinate at slack water (tide 0), in [0, 1).
    ramp:
        Number of steps of the ramp; 0 switches it off.
    wall:
        Height of the breakwater, in units of the typical gradient entry.
    pull:
        Strength of the pull towards the anchor.
    period:
        The anchor moves every ``period`` steps.
    """

    def __init__(self, weights, *, rate=0.1, inertia=0.9, ramp=4, wall=3.0, pull=0.5, period=5):
        if not 0.0 <= inertia < 1.0:
            raise ValueError("inertia must lie in [0, 1)")
        if period < 1 or ramp < 0:
            raise ValueError("period must be at least 1 and ramp at least 0")
        self.rate = rate
        self.inertia = inertia
        self.ramp = ramp
        self.wall = wall
        self.pull = pull
        self.period = period
        self.weights = np.array(weights, dtype=float)
        self.anchor = self.weights.copy()
        self.velocity = np.zeros_like(self.weights)
        self.mass = np.zeros_like(self.weights)
        self.tide = np.zeros(self.weights.shape, dtype=int)
        self.steps = 0

    def learning_rate(self):
        """Return the learning rate of the current step; ``steps`` has been counted up already."""
        # <paper2code name="learning rate of the ramp and after it">
        if self.steps <= self.ramp:
            return self.rate * (self.steps / (self.ramp + 1)) ** 1.5
        return self.rate * (self.steps - self.ramp) ** -0.25
        # </paper2code name="learning rate of the ramp and after it">

    def breakwater(self, gradient):
        """Return a copy of ``gradient`` whose large entries are compressed."""
        # <paper2code name="breakwater for large gradient entries">
        sizes = np.abs(gradient)
        # <paper2code name="height of the wall">
        present = np.sort(sizes[sizes > 0])
        if present.size == 0:
            return gradient.copy()
        height = self.wall * present[(present.size - 1) // 2]
        # </paper2code name="height of the wall">
        excess = np.maximum(sizes / height, 1.0)
        return gradient / excess * (1.0 + np.log(excess))
        # </paper2code name="breakwater for large gradient entries">

    def momentum(self):
        """Return the momentum coefficient of each coordinate from its tide."""
        slack = (1.0 - self.inertia) * np.exp2(-self.tide / 2.0)
        return np.clip(1.0 - slack, 0.0, None)

    def step(self, gradient):
        """Move the weights once and return the root mean square of the displacement."""
        gradient = np.asarray(gradient, dtype=float)
        if gradient.shape != self.weights.shape:
            raise ValueError(f"gradient of shape {gradient.shape} for weights of shape {self.weights.shape}")
        # <paper2code name="one complete step">
        usable = np.isfinite(gradient)
        if not usable.any():
            return 0.0
        gradient = np.where(usable, gradient, 0.0)
        self.steps += 1
        before = self.weights.copy()
        # <paper2code name="tide from the agreement of signs">
        accord = (np.sign(gradient) * np.sign(self.velocity)).astype(int)
        drift = np.choose(accord + 1, (-2, -np.sign(self.tide), 1))
        self.tide = np.minimum(np.maximum(self.tide + drift, TIDE_FLOOR), TIDE_CEILING)
        # </paper2code name="tide from the agreement of signs">
        beta = self.momentum()
        self.velocity = beta * self.velocity + (1.0 - beta) * self.breakwater(gradient)
        self.mass = beta * self.mass + (1.0 - beta)
        heading = self.velocity / self.mass
        eta = self.learning_rate()
        self.weights -= eta * heading / max(1.0, float(np.sqrt(np.mean(heading**2))))
        # <paper2code name="pull of ebbing coordinates and refresh of the anchor">
        ebbing = self.tide < 0
        self.weights[ebbing] += eta * self.pull * (self.anchor[ebbing] - self.weights[ebbing])
        # <paper2code name="refresh of the anchor and slack tide">
        if self.steps % self.period == 0:
            self.anchor = (2.0 * self.anchor + self.weights) / 3.0
            self.tide = np.trunc(self.tide / 2).astype(int)
        # </paper2code name="refresh of the anchor and slack tide">
        # </paper2code name="pull of ebbing coordinates and refresh of the anchor">
        return float(np.sqrt(np.mean((self.weights - before) ** 2)))
        # </paper2code name="one complete step">

    def state(self):
        """Return everything a later ``load_state`` needs, as copies."""
        return {
            "steps": self.steps,
            "weights": self.weights.copy(),
            "anchor": self.anchor.copy(),
            "velocity": self.velocity.copy(),
            "mass": self.mass.copy(),
            "tide": self.tide.copy(),
        }

    def load_state(self, state):
        """Continue from what ``state`` returned, here or in another object of the same shape."""
        if np.shape(state["weights"]) != self.weights.shape:
            raise ValueError("the state belongs to weights of another shape")
        self.steps = int(state["steps"])
        for name in ("weights", "anchor", "velocity", "mass"):
            setattr(self, name, np.array(state[name], dtype=float))
        self.tide = np.array(state["tide"], dtype=int)
