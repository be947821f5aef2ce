"""Hidden tests of Parley: equal to the dictionary-based reference on random sequences, and the text's rules by hand."""

import math
import unittest

import numpy as np
import parley_ref as reference
from decoding import Parley


class EquivalenceTest(unittest.TestCase):
    def compare(self, ours, theirs):
        self.assertEqual(list(ours.history), theirs.text)
        self.assertAlmostEqual(ours.heat, float(theirs.temperature), places=10)
        owed = [theirs.owed.get(token, 0.0) for token in range(theirs.options[0])]
        np.testing.assert_allclose(ours.credits, owed, rtol=1e-9, atol=1e-12)

    def test_random_sequences(self):
        settings = (
            {},
            {"frugality": 0.05, "target": 1.0, "stake": 2.5, "longest": 2},
            {"frugality": 0.6, "target": 4.0, "stake": 1.0, "longest": 5},
            {"frugality": 0.0, "target": 0.2, "stake": 6.0, "longest": 1},
        )
        for seed, options in enumerate(settings):
            size = (6, 9, 4, 12)[seed]
            inputs = np.random.default_rng(seed)
            mine, yours = np.random.default_rng(100 + seed), np.random.default_rng(100 + seed)
            ours, theirs = Parley(size, **options), reference.Sampler(size, **options)
            for count in range(24):
                logits = inputs.normal(size=size) * (0.5 + 2.0 * inputs.random())
                self.assertEqual(ours.choose(logits, mine), theirs.choose(logits, yours))
                if count % 8 == 7:
                    self.compare(ours, theirs)

    def test_loops(self):
        rng = np.random.default_rng(50)
        for longest in (1, 2, 3, 4):
            sampler = Parley(3, longest=longest)
            for length in (0, 1, 2, 3, 4, 5, 6, 7, 8, 9):
                history = rng.integers(0, 2, size=length).tolist()
                sampler.history = history
                self.assertEqual(sampler.closing(), reference.loops(history, 3, longest))


class RuleTest(unittest.TestCase):
    def closing(self, history, longest=3):
        sampler = Parley(9, longest=longest)
        sampler.history = history
        return sampler.closing()

    def shortlist(self, chances, heat=1.0, **options):
        sampler = Parley(len(chances), **options)
        sampler.heat = heat
        return sampler.shortlist(np.array(chances))

    def test_what_closes_a_loop(self):
        self.assertEqual(self.closing([]), set())
        self.assertEqual(self.closing([4]), set())
        self.assertEqual(self.closing([4, 4]), {4})
        self.assertEqual(self.closing([5, 6, 5]), {6})
        self.assertEqual(self.closing([1, 2, 3, 1, 2]), {3})
        self.assertEqual(self.closing([1, 2, 3, 1, 2], longest=2), set())
        self.assertEqual(self.closing([7, 7, 8, 7, 7]), {7, 8})

    def test_the_runner_up_sets_the_bar(self):
        self.assertEqual(self.shortlist([0.05, 0.6, 0.0, 0.1, 0.25], frugality=0.4), [1, 4, 3])
        self.assertEqual(self.shortlist([0.05, 0.6, 0.0, 0.1, 0.25], frugality=0.2), [1, 4, 3, 0])
        self.assertEqual(self.shortlist([0.125, 0.5, 0.25, 0.125], frugality=0.5), [1, 2, 0, 3])
        self.assertEqual(self.shortlist([0.75, 0.25], frugality=0.5), [0, 1])

    def test_ties_and_length(self):
        self.assertEqual(self.shortlist([0.125] * 8), [0, 1, 2, 3, 4])
        self.assertEqual(self.shortlist([0.125] * 8, heat=0.25), [0, 1])
        self.assertEqual(self.shortlist([0.125] * 8, heat=0.4), [0, 1, 2])
        self.assertEqual(self.shortlist([0.0, 1.0], frugality=0.0), [1])

    def test_a_single_candidate_needs_no_draw_and_moves_nothing(self):
        sampler, rng = Parley(2, frugality=1.0), np.random.default_rng(3)
        sampler.history = [0, 0]
        sampler.heat = 0.5
        self.assertEqual(sampler.choose([50.0, 0.0], rng), 1)
        self.assertEqual(sampler.heat, 0.5)
        np.testing.assert_allclose(sampler.credits, [0.0, 0.0])
        expected = [int(number < 0.5) for number in np.random.default_rng(3).random(6)]
        self.assertEqual([Parley(2).choose([0.0, 0.0], rng) for _ in range(6)], expected)

    def test_if_all_tokens_close_a_loop_none_is_barred(self):
        ours, theirs = Parley(2), reference.Sampler(2)
        ours.history, theirs.text = [0, 0, 1, 0, 0], [0, 0, 1, 0, 0]
        self.assertEqual(ours.closing(), {0, 1})
        logits = np.array([0.0, 0.5])
        self.assertEqual(ours.choose(logits, np.random.default_rng(1)), theirs.choose(logits, np.random.default_rng(1)))
        self.assertAlmostEqual(ours.heat, theirs.temperature, places=12)

    def test_credit_is_paid_by_the_chosen_and_limited(self):
        sampler = Parley(3, frugality=0.0, stake=1.0)
        sampler.credits = np.array([1.0, -1.0, 0.0])
        token = sampler.choose(np.array([-1.0, 1.0, 0.0]), np.random.default_rng(4))
        expected = np.array([0.8, -0.8, 0.0]) + 1.0 / 3.0
        expected[token] -= 1.0
        np.testing.assert_allclose(sampler.credits, expected, rtol=1e-12)
        sampler = Parley(2, frugality=0.0, stake=9.0)
        token = sampler.choose(np.zeros(2), np.random.default_rng(5))
        np.testing.assert_allclose(sampler.credits[[token, 1 - token]], [-2.0, 2.0])

    def test_heat(self):
        for target, expected in ((1.0, 1.0), (3.0, math.sqrt(2.0)), (20.0, 4.0), (-20.0, 0.25)):
            sampler = Parley(2, target=target)
            sampler.choose(np.zeros(2), np.random.default_rng(6))
            self.assertAlmostEqual(sampler.heat, expected, places=12)

    def test_surprise_counts_up_to_six_bits(self):
        sampler = Parley(256, target=6.0)
        sampler.choose(np.zeros(256), np.random.default_rng(7))
        self.assertAlmostEqual(sampler.heat, 1.0, places=12)

    def test_heat_divides_the_logits(self):
        sampler = Parley(2, target=1.0, frugality=0.0)
        sampler.heat = 2.0
        token = sampler.choose(np.array([0.0, 2.0 * math.log(3.0)]), np.random.default_rng(8))
        bits = 2.0 if token == 0 else 2.0 - math.log2(3.0)
        self.assertAlmostEqual(sampler.heat, 2.0 * 2.0 ** ((1.0 - bits) / 4.0), places=12)

    def test_large_logits_and_refusals(self):
        sampler = Parley(3)
        self.assertEqual(sampler.choose([5000.0, 0.0, -5000.0], np.random.default_rng(9)), 0)
        for bad in ([1.0, 2.0], [1.0, 2.0, np.nan], [1.0, 2.0, np.inf]):
            with self.assertRaises(ValueError):
                sampler.choose(bad, np.random.default_rng(9))
        self.assertEqual(list(sampler.history), [0])


if __name__ == "__main__":
    unittest.main()
