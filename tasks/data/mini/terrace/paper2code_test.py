"""Hidden tests of Terrace: equal to the scalar reference for several settings, and the text's rules by hand."""

import unittest

import numpy as np
import terrace_ref as reference
from sampler import allot, fold, noise_levels, sample


def shrinking(state, level):
    """A denoiser that depends on the state and is not linear, so that slopes change from step to step."""
    return 1.5 * np.tanh(state / (1.0 + level)) + 0.2 * np.sin(3.0 * state)


def recorder(answer):
    """Return a denoiser with a constant answer, and the lists of the states and levels that it is asked about."""
    states, levels = [], []

    def denoise(state, level):
        states.append(np.array(state))
        levels.append(float(level))
        return np.full(np.shape(state), answer)

    return denoise, states, levels


class EquivalenceTest(unittest.TestCase):
    def test_allotment(self):
        for terraces in range(1, 6):
            got = [allot(steps, terraces) for steps in range(terraces, terraces + 12)]
            self.assertEqual(got, [reference.allot(steps, terraces) for steps in range(terraces, terraces + 12)])

    def test_levels(self):
        for steps, loudest, quietest, terraces in (
            (10, 20.0, 0.05, 3),
            (4, 9.0, 1.0, 3),
            (17, 80.0, 0.002, 5),
            (6, 2.0, 0.5, 1),
        ):
            options = {"loudest": loudest, "quietest": quietest, "terraces": terraces}
            levels, landings = noise_levels(steps, **options)
            expected, starts = reference.noise_levels(steps, **options)
            np.testing.assert_allclose(levels, expected, rtol=1e-10)
            self.assertEqual(list(landings), starts)

    def test_fold(self):
        for seed, bound in ((1, 1.0), (2, 0.4), (3, 2.5)):
            values = 1.5 * np.random.default_rng(seed).normal(size=(4, 5))
            np.testing.assert_allclose(fold(values, bound), reference.fold(values, bound), rtol=1e-12, atol=1e-15)

    def test_samples(self):
        settings = (
            {},
            {"steps": 14, "terraces": 5, "lift": 0.5},
            {"steps": 8, "terraces": 2, "lift": 0.0, "bound": 0.7},
            {"steps": 9, "terraces": 1, "loudest": 5.0, "quietest": 0.2},
        )
        for seed, options in enumerate(settings):
            got = sample(shrinking, (2, 3), np.random.default_rng(seed), **options)
            expected = reference.sample(shrinking, (2, 3), np.random.default_rng(seed), **options)
            np.testing.assert_allclose(got, expected, rtol=1e-8, atol=1e-10)

    def test_the_generator_moves_on(self):
        mine, theirs = np.random.default_rng(7), np.random.default_rng(7)
        for _ in range(2):
            got = sample(shrinking, (3,), mine, terraces=4)
            np.testing.assert_allclose(got, reference.sample(shrinking, (3,), theirs, terraces=4), rtol=1e-8)


class RuleTest(unittest.TestCase):
    def test_left_over_steps_go_to_the_neediest_and_the_quieter(self):
        self.assertEqual(allot(9, 3), [2, 3, 4])
        self.assertEqual(allot(6, 3), [1, 2, 3])
        self.assertEqual(allot(5, 5), [1, 1, 1, 1, 1])
        with self.assertRaises(ValueError):
            allot(2, 3)

    def test_levels_of_two_terraces(self):
        levels, landings = noise_levels(4, loudest=16.0, quietest=1.0, terraces=2)
        np.testing.assert_allclose(levels, [16.0, 4.0, 2.25, 1.0, 0.0], rtol=1e-12)
        self.assertEqual(list(landings), [0, 1])

    def test_folding(self):
        np.testing.assert_allclose(
            fold(np.array([0.5, -1.0, 1.25, -1.75, 2.5, -9.0]), 1.0), [0.5, -1.0, 0.75, -0.25, 0.0, 0.0]
        )

    def test_the_denoiser_sees_the_lifted_levels(self):
        denoise, _, asked = recorder(0.0)
        sample(denoise, (1,), np.random.default_rng(3), steps=8, terraces=4, lift=0.6)
        levels, landings = reference.noise_levels(8, terraces=4)
        for number, start in enumerate(landings[1:], start=1):
            levels[start] *= 1.0 + 0.6 / number
        np.testing.assert_allclose(asked, levels[:-1], rtol=1e-10)

    def test_the_first_lift_takes_the_starting_noise_back(self):
        denoise, states, _ = recorder(0.0)
        sample(denoise, (4,), np.random.default_rng(5), steps=4, terraces=3, loudest=8.0, quietest=1.0, lift=0.5)
        draws = np.random.default_rng(5)
        first, second = draws.standard_normal(4), draws.standard_normal(4)
        np.testing.assert_allclose(states[0], 8.0 * first, rtol=1e-10)
        np.testing.assert_allclose(states[1], 4.0 * first - 4.0 * np.sqrt(1.25) * first, rtol=1e-9)
        arrived = states[1] / 3.0
        np.testing.assert_allclose(states[2], arrived + 2.0 * 0.75 * second, rtol=1e-9)

    def test_the_last_step_lands_on_the_folded_estimate(self):
        got = sample(recorder(2.5)[0], (3,), np.random.default_rng(6), bound=2.0)
        np.testing.assert_allclose(got, [1.5, 1.5, 1.5], rtol=1e-9)


if __name__ == "__main__":
    unittest.main()
