"""Hidden tests of Chord: loss and gradients against complex steps, and the text's rules by hand."""

import math
import unittest

import chord_ref as reference
import numpy as np
from loss import best_partners, chord_loss, match, pair_losses, rival_logits, soft_units, through_length


def batch(seed):
    """Bags of one to four vectors; one key stands on each side alone, and two have a kind in common."""
    rng = np.random.default_rng(seed)
    left = {key: rng.normal(size=(rows, 2)) for key, rows in (("fox", 3), ("ant", 1), ("owl", 2), ("bee", 4))}
    right = {key: rng.normal(size=(rows, 2)) for key, rows in (("bee", 1), ("owl", 3), ("elk", 2), ("fox", 2))}
    return left, right, {"bee": "insect", "ant": "insect", "owl": "bird", "fox": "mammal", "elk": "mammal"}


class EquivalenceTest(unittest.TestCase):
    def compare(self, left, right, kinds, **options):
        loss, ours_left, ours_right = chord_loss(left, right, kinds, **options)
        self.assertAlmostEqual(loss, complex(reference.loss(left, right, kinds, **options)).real, places=10)
        for ours, theirs in zip((ours_left, ours_right), reference.slopes(left, right, kinds, **options)):
            self.assertEqual(sorted(ours), sorted(theirs))
            for key, gradient in theirs.items():
                np.testing.assert_allclose(ours[key], gradient, rtol=1e-7, atol=1e-10, err_msg=key)

    def test_default_settings(self):
        self.compare(*batch(1))

    def test_other_settings(self):
        self.compare(*batch(2), temperature=0.5, margin=0.3, calm=0.6, sharpness=2.0)

    def test_match(self):
        for seed, sizes in enumerate(((3, 2), (1, 4), (5, 5), (2, 2))):
            rng = np.random.default_rng(10 + seed)
            first, second = (rng.normal(size=(size, 3)) / 2.0 for size in sizes)
            value, slope = match(first, second, sharpness=3.0)
            self.assertAlmostEqual(value, reference.similarity(first, second, 3.0).real, places=12)
            moved = first.astype(complex)
            moved[-1, 1] += reference.STEP * 1j
            expected = reference.similarity(moved, second, 3.0).imag / reference.STEP
            self.assertAlmostEqual(float(slope[-1] @ second[:, 1]), expected, places=10)

    def test_best_partners(self):
        for seed, shape in enumerate(((4, 3), (2, 5), (3, 1), (1, 1))):
            table = np.random.default_rng(20 + seed).uniform(-1.0, 1.0, size=shape)
            value, slope = best_partners(table, sharpness=4.0)
            self.assertAlmostEqual(value, reference.one_way(table, np.eye(shape[1]), 4.0).real, places=12)
            for place in np.ndindex(shape):
                moved = table.astype(complex)
                moved[place] += reference.STEP * 1j
                expected = reference.one_way(moved, np.eye(shape[1]), 4.0).imag / reference.STEP
                self.assertAlmostEqual(float(slope[place]), expected, places=10)


class RuleTest(unittest.TestCase):
    def test_soft_length(self):
        units, lengths = soft_units(np.array([[0.3, 0.4], [0.0, 0.0]]))
        np.testing.assert_allclose(lengths, [[math.sqrt(0.26)], [0.1]], rtol=1e-12)
        np.testing.assert_allclose(units, [[0.3 / math.sqrt(0.26), 0.4 / math.sqrt(0.26)], [0.0, 0.0]], rtol=1e-12)

    def test_gradient_through_the_length(self):
        got = through_length(
            np.array([[1.0, 2.0], [3.0, 0.0]]), np.array([[0.6, 0.5], [0.0, 0.0]]), np.array([[2.0], [0.1]])
        )
        np.testing.assert_allclose(got, [[0.02, 0.6], [30.0, 0.0]], rtol=1e-12, atol=1e-15)

    def test_worst_of_three_rows_is_left_out(self):
        value, slope = best_partners(np.array([[0.5], [-0.5], [0.25]]), sharpness=5.0)
        self.assertAlmostEqual(value, 0.375, places=12)
        np.testing.assert_allclose(slope, [[0.5], [0.0], [0.5]], rtol=1e-12)
        value, slope = best_partners(np.array([[0.5], [-0.5]]), sharpness=5.0)
        self.assertAlmostEqual(value, 0.0, places=12)
        np.testing.assert_allclose(slope, [[0.5], [0.5]], rtol=1e-12)

    def test_of_equally_bad_rows_the_first_is_left_out(self):
        _, slope = best_partners(np.array([[0.5], [0.25], [0.25]]), sharpness=5.0)
        np.testing.assert_allclose(slope, [[0.5], [0.0], [0.5]], rtol=1e-12)

    def test_the_first_side_counts_twice(self):
        value, slope = match(np.array([[1.0, 0.0]]), np.array([[1.0, 0.0], [0.0, 0.0]]), sharpness=1.0)
        self.assertAlmostEqual(value, (2.0 * math.log((math.e + 1.0) / 2.0) + 0.5) / 3.0, places=12)
        share = math.e / (math.e + 1.0)
        np.testing.assert_allclose(slope, [[(2 * share + 0.5) / 3, (2 * (1 - share) + 0.5) / 3]], rtol=1e-12)

    def test_margin_and_kinship(self):
        similarities = {
            ("a", "a"): 0.5,
            ("a", "b"): 0.25,
            ("a", "c"): 0.5,
            ("c", "a"): 0.75,
            ("c", "b"): 0.0,
            ("c", "c"): 1.0,
        }
        kinds = {"a": "x", "b": "x"}
        got = rival_logits(similarities, ["a", "c"], ["a", "b", "c"], kinds, temperature=0.5, margin=0.25)
        kin = math.log(0.25)
        np.testing.assert_allclose(got, [[0.5, 0.5 + kin, 1.0], [1.5, 0.0, 1.5]], rtol=1e-12, atol=1e-15)

    def test_keys_without_a_kind_are_nobodys_kin(self):
        similarities = {("c", "d"): 0.5, ("c", "c"): 1.0}
        for kinds in ({}, {"c": "x"}, {"d": "x"}):
            got = rival_logits(similarities, ["c"], ["c", "d"], kinds, temperature=1.0, margin=0.0)
            np.testing.assert_allclose(got, [[1.0, 0.5]], rtol=1e-12)

    def test_a_pair_exactly_at_the_calm_is_calm(self):
        logits = np.array([[2.0, 2.0], [0.0, math.log(3.0)]])
        loss, gradient = pair_losses(logits, [1, 0], np.array([1, 4]), calm=math.log(2.0))
        self.assertAlmostEqual(loss, math.log(2.0) * 2.0 / 3.0, places=12)
        np.testing.assert_allclose(gradient, [[0.0, 0.0], [-0.5, 0.5]], rtol=1e-12, atol=1e-15)

    def test_large_logits(self):
        loss, gradient = pair_losses(np.array([[900.0, 901.0, -100.0]]), [0], np.array([2]), calm=0.0)
        self.assertAlmostEqual(loss, 1.0 + math.log(1.0 + math.exp(-1.0)), places=10)
        share = 1.0 / (1.0 + math.exp(-1.0))
        np.testing.assert_allclose(gradient, [[-share, share, 0.0]], rtol=1e-10, atol=1e-15)

    def test_bags_without_a_partner(self):
        left, right, kinds = batch(3)
        _, ours_left, ours_right = chord_loss(left, right, kinds)
        np.testing.assert_allclose(ours_left["ant"], np.zeros((1, 2)))
        self.assertGreater(float(np.abs(ours_right["elk"]).max()), 0.0)
        with self.assertRaises(ValueError):
            chord_loss({"a": np.ones((1, 2))}, {"b": np.ones((1, 2))}, {})


if __name__ == "__main__":
    unittest.main()
