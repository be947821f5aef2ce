"""Hidden tests of Tidal: equal to the scalar reference on random runs, and the text's edge cases by hand."""

import math
import unittest

import numpy as np
from optimizer import Tidal
from optimizer_ref import Tidal as TidalRef

SETTINGS = (
    {},
    {"rate": 0.3, "inertia": 0.5, "ramp": 0, "wall": 1.5, "pull": 0.9, "period": 3},
    {"rate": 0.02, "inertia": 0.97, "ramp": 7, "wall": 2.0, "pull": 0.2, "period": 1},
    {"rate": 0.2, "inertia": 0.0, "ramp": 2, "wall": 0.5, "pull": 1.5, "period": 4},
)


def gradients(seed, shape, count):
    """Gradients with a wandering mean, so that signs agree for a while; a few zeros and a few huge entries."""
    rng = np.random.default_rng(seed)
    centre = rng.normal(size=shape)
    for _ in range(count):
        centre = centre + 0.6 * rng.normal(size=shape)
        drawn = centre + 0.3 * rng.normal(size=shape)
        drawn[rng.random(shape) < 0.1] = 0.0
        drawn[rng.random(shape) < 0.08] *= 40.0
        yield drawn


class EquivalenceTest(unittest.TestCase):
    def compare(self, ours, reference):
        self.assertEqual(ours.steps, reference.steps)
        for name in ("tide", "velocity", "mass", "weights", "anchor"):
            np.testing.assert_allclose(getattr(ours, name), getattr(reference, name), rtol=1e-9, atol=1e-12, err_msg=name)

    def test_random_runs(self):
        for seed, settings in enumerate(SETTINGS):
            shape = ((9,), (3, 4), (2, 2, 3), (1,))[seed]
            start = np.random.default_rng(100 + seed).normal(size=shape)
            ours, reference = Tidal(start, **settings), TidalRef(start, **settings)
            for count, gradient in enumerate(gradients(seed, shape, 17)):
                moved, expected = ours.step(gradient), reference.step(gradient)
                self.assertAlmostEqual(moved, expected, places=10)
                if count % 4 == 0 or count == 16:
                    self.compare(ours, reference)

    def test_long_agreement_and_long_conflict_reach_the_ends(self):
        settings = {"period": 50, "rate": 0.2, "ramp": 1}
        ours, reference = Tidal([2.0, -1.0, 0.5], **settings), TidalRef([2.0, -1.0, 0.5], **settings)
        for count in range(9):
            gradient = np.array([0.8, (-1.0) ** count * (1.0 + count), 0.4 if count < 4 else 0.0])
            ours.step(gradient)
            reference.step(gradient)
        self.compare(ours, reference)
        self.assertEqual(int(ours.tide[0]), 5)
        self.assertEqual(int(ours.tide[2]), 0)

    def test_state_continues(self):
        steps = list(gradients(5, (6,), 11))
        first, second, reference = Tidal(np.ones(6)), Tidal(np.zeros(6)), TidalRef(np.ones(6))
        for gradient in steps:
            reference.step(gradient)
        for gradient in steps[:6]:
            first.step(gradient)
        second.load_state(first.state())
        for gradient in steps[6:]:
            second.step(gradient)
        self.compare(second, reference)


class ScheduleTest(unittest.TestCase):
    def rate_at(self, steps, **settings):
        optimizer = Tidal([1.0], **settings)
        optimizer.steps = steps
        return optimizer.learning_rate()

    def test_ramp(self):
        self.assertAlmostEqual(self.rate_at(1, rate=0.5, ramp=3), 0.5 / 8.0, places=12)
        self.assertAlmostEqual(self.rate_at(3, rate=0.5, ramp=3), 0.5 * 0.75**1.5, places=12)

    def test_after_the_ramp(self):
        self.assertAlmostEqual(self.rate_at(4, rate=0.5, ramp=3), 0.5, places=12)
        self.assertAlmostEqual(self.rate_at(19, rate=0.5, ramp=3), 0.25, places=12)

    def test_no_ramp(self):
        self.assertAlmostEqual(self.rate_at(1, rate=0.7, ramp=0), 0.7, places=12)


class BreakwaterTest(unittest.TestCase):
    def test_lower_median_of_the_entries_that_are_not_zero(self):
        gradient = np.array([0.0, 0.0, 1.0, -2.0, 3.0, -40.0, 0.0])
        got = Tidal(np.zeros(7), wall=1.5).breakwater(gradient)
        np.testing.assert_allclose(got, [0, 0, 1, -2, 3, -3 * (1 + math.log(40 / 3)), 0], rtol=1e-12)

    def test_odd_count(self):
        got = Tidal(np.zeros(3), wall=1.0).breakwater(np.array([8.0, -1.0, 2.0]))
        np.testing.assert_allclose(got, [2 * (1 + math.log(4)), -1.0, 2.0], rtol=1e-12)

    def test_single_entry(self):
        got = Tidal(np.zeros(2), wall=0.5).breakwater(np.array([0.0, -4.0]))
        np.testing.assert_allclose(got, [0.0, -2.0 * (1 + math.log(2))], rtol=1e-12)

    def test_all_zero(self):
        np.testing.assert_allclose(Tidal(np.zeros((2, 2))).breakwater(np.zeros((2, 2))), np.zeros((2, 2)))


class EdgeCaseTest(unittest.TestCase):
    def test_entries_that_are_not_finite_count_as_zero(self):
        ours, reference = Tidal([1.0, 2.0, 3.0]), TidalRef([1.0, 2.0, 3.0])
        for gradient in ([1.0, -1.0, 2.0], [1.0, np.nan, -2.0], [np.inf, -1.0, -2.0], [1.0, -np.inf, 0.5]):
            self.assertAlmostEqual(ours.step(np.array(gradient)), reference.step(np.array(gradient)), places=12)
        np.testing.assert_allclose(ours.weights, reference.weights, rtol=1e-12)
        np.testing.assert_allclose(ours.tide, reference.tide)

    def test_nothing_finite_is_no_step(self):
        optimizer, reference = Tidal([1.0, 2.0]), TidalRef([1.0, 2.0])
        optimizer.step(np.array([0.5, -0.5]))
        reference.step(np.array([0.5, -0.5]))
        self.assertEqual(optimizer.step(np.array([np.nan, np.inf])), 0.0)
        self.assertEqual(optimizer.steps, 1)
        np.testing.assert_allclose(optimizer.weights, reference.weights, rtol=1e-12)
        np.testing.assert_allclose(optimizer.velocity, reference.velocity, rtol=1e-12)

    def test_zero_gradient_is_a_step(self):
        optimizer = Tidal([1.0, 2.0])
        self.assertEqual(optimizer.step(np.zeros(2)), 0.0)
        self.assertEqual(optimizer.steps, 1)

    def test_first_step_is_bias_corrected_and_capped(self):
        optimizer = Tidal([0.0, 0.0], rate=1.0, ramp=0, wall=10.0)
        self.assertAlmostEqual(optimizer.step(np.array([3.0, 4.0])), 1.0, places=12)
        scale = math.sqrt(12.5)
        np.testing.assert_allclose(optimizer.weights, [-3.0 / scale, -4.0 / scale], rtol=1e-12)
        small = Tidal([0.0, 0.0], rate=1.0, ramp=0)
        small.step(np.array([0.3, 0.4]))
        np.testing.assert_allclose(small.weights, [-0.3, -0.4], rtol=1e-12)

    def test_refresh_halves_the_tide_towards_zero(self):
        optimizer = Tidal(np.zeros(4), period=6, rate=0.0)
        optimizer.load_state(
            {
                "steps": 5,
                "weights": np.array([3.0, 6.0, 9.0, -3.0]),
                "anchor": np.zeros(4),
                "velocity": np.array([1.0, 1.0, 1.0, -1.0]),
                "mass": np.full(4, 0.5),
                "tide": np.array([4, -1, 2, 0]),
            }
        )
        optimizer.step(np.array([1.0, -1.0, 1.0, 2.0]))
        np.testing.assert_allclose(optimizer.tide, [2, -1, 1, -1])
        np.testing.assert_allclose(optimizer.anchor, [1.0, 2.0, 3.0, -1.0], rtol=1e-12)

    def test_wrong_shape(self):
        with self.assertRaises(ValueError):
            Tidal([1.0, 2.0]).step(np.zeros(3))


if __name__ == "__main__":
    unittest.main()
