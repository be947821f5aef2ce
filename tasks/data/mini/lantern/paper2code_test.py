"""Hidden tests of Lantern: equal to the loop reference on random inputs, and the text's rules by hand."""

import math
import unittest

import lantern_ref as reference
import numpy as np
from attention import attend, leaky_weights, tempered_scores
from distance import ring_numbers, ring_toll, visible_keys


def tensors(seed, heads, groups, lengths):
    """Random queries, keys and values of different widths."""
    rng = np.random.default_rng(seed)
    queries, keys = lengths
    return (
        1.5 * rng.normal(size=(heads, queries, 5)),
        1.5 * rng.normal(size=(groups, keys, 5)),
        rng.normal(size=(groups, keys, 3)),
    )


class EquivalenceTest(unittest.TestCase):
    def test_rings(self):
        for queries, keys, rings, width in ((5, 5, 4, 2), (3, 20, 3, 1), (12, 17, 9, 3), (1, 1, 2, 2)):
            got = ring_numbers(queries, keys, rings=rings, width=width)
            np.testing.assert_array_equal(got, reference.ring_numbers(queries, keys, rings=rings, width=width))

    def test_visible(self):
        for queries, keys, reach, glance, stride, anchors in (
            (9, 9, 3, 1, 4, 1),
            (7, 16, 1, 0, 3, 2),
            (14, 14, 0, 2, 2, 3),
        ):
            options = {"reach": reach, "glance": glance, "stride": stride, "anchors": anchors}
            got = visible_keys(queries, keys, **options)
            np.testing.assert_array_equal(got, reference.visible_keys(queries, keys, **options))
        np.testing.assert_array_equal(visible_keys(6, 11), reference.visible_keys(6, 11))

    def test_toll(self):
        table = reference.ring_numbers(6, 9, rings=3, width=1)
        np.testing.assert_allclose(ring_toll(5, table, rings=3), reference.ring_toll(5, table, rings=3), atol=1e-15)

    def test_scores(self):
        for seed, (heads, groups) in enumerate(((4, 2), (3, 3), (2, 1))):
            queries, keys, _ = tensors(seed, heads, groups, (5, 8))
            seen = reference.visible_keys(5, 8)
            got = tempered_scores(queries, keys, seen)
            np.testing.assert_allclose(got, reference.tempered_scores(queries, keys, seen), rtol=1e-9, atol=1e-12)

    def test_weights(self):
        for seed, leak in ((10, 1.0), (11, 0.0), (12, -0.5)):
            scores = 2.0 * np.random.default_rng(seed).normal(size=(3, 5, 7))
            seen = reference.visible_keys(5, 7)
            got = leaky_weights(scores, seen, leak=leak)
            np.testing.assert_allclose(got, reference.leaky_weights(scores, seen, leak=leak), rtol=1e-9, atol=1e-15)

    def test_attend(self):
        for seed, (heads, groups, lengths) in enumerate(((4, 2, (6, 6)), (3, 3, (4, 9)), (6, 3, (1, 5)))):
            inputs = tensors(20 + seed, heads, groups, lengths)
            got = attend(*inputs, leak=0.5 + seed)
            np.testing.assert_allclose(got, reference.attend(*inputs, leak=0.5 + seed), rtol=1e-9, atol=1e-12)


class RuleTest(unittest.TestCase):
    def test_keys_ahead_are_twice_as_far(self):
        got = ring_numbers(7, 7, rings=3, width=1)
        np.testing.assert_array_equal(got[0], [0, 2, 3, 3, 3, 3, 3])
        np.testing.assert_array_equal(got[6], [3, 3, 3, 2, 2, 1, 0])

    def test_anchors_see_anchors_only(self):
        got = visible_keys(5, 5, reach=2, glance=1, stride=4, anchors=2)
        np.testing.assert_array_equal(got[:2], [[True, True, False, False, False]] * 2)
        np.testing.assert_array_equal(got[2], [True, True, True, True, False])

    def test_milestones_from_a_stride_away(self):
        got = visible_keys(9, 9, reach=0, glance=0, stride=3, anchors=0)
        self.assertEqual([np.flatnonzero(row).tolist() for row in got[4:7]], [[4], [2, 5], [2, 6]])
        self.assertEqual(np.flatnonzero(got[8]).tolist(), [2, 5, 8])

    def test_far_sighted_heads_pay_for_near_rings(self):
        got = ring_toll(4, np.array([[0, 1, 2, 4]]), rings=4)
        expected = [[[0, 1, 2, 4]], [[0, 4, 3, 1]], [[0, 0.5, 1, 2]], [[0, 2, 1.5, 0.5]]]
        np.testing.assert_allclose(got, expected, atol=1e-15)

    def test_one_visible_key_halves_the_score(self):
        got = tempered_scores(np.full((1, 1, 4), 2.0), np.full((1, 2, 4), 3.0), np.array([[True, False]]))
        np.testing.assert_allclose(got, [[[6.0, 6.0]]], rtol=1e-12)

    def test_only_bright_scores_echo_and_only_within_a_round(self):
        queries = np.array([[[4.0]], [[0.0]], [[0.0]]])
        keys = np.array([[[1.0], [-1.0]], [[1.0], [1.0]], [[1.0], [1.0]]])
        seen = np.array([[True, True]])
        half = math.log2(3.0) / 2.0
        expected = [[[4 * half, -4 * half]], [[half, 0.0]], [[half / 4, 0.0]]]
        np.testing.assert_allclose(tempered_scores(queries, keys, seen), expected, rtol=1e-12, atol=1e-15)
        got = tempered_scores(queries, keys[:1], seen)
        np.testing.assert_allclose(got[1:], np.zeros((2, 1, 2)), atol=1e-15)

    def test_equal_scores_leak_by_count(self):
        seen = np.array([[True, True, True, False]])
        got = leaky_weights(np.array([[[7.0, 7.0, 7.0, 900.0]]]), seen, leak=0.0)
        np.testing.assert_allclose(got, [[[0.25, 0.25, 0.25, 0.0]]], rtol=1e-12)

    def test_large_scores_do_not_overflow(self):
        got = leaky_weights(np.array([[[4000.0, 3998.0]]]), np.array([[True, True]]), leak=1.0)
        total = 1.0 + math.exp(-2.0) + math.exp(-2.0)
        np.testing.assert_allclose(got, [[[1.0 / total, math.exp(-2.0) / total]]], rtol=1e-12)

    def test_constant_values_come_out_as_they_went_in(self):
        queries, keys, values = tensors(40, 4, 2, (5, 5))
        got = attend(queries, keys, np.ones_like(values))
        np.testing.assert_allclose(got, np.ones((4, 5, 3)), rtol=1e-12)

    def test_refusals(self):
        queries, keys, values = tensors(41, 3, 2, (4, 4))
        with self.assertRaises(ValueError):
            attend(queries, keys, values)
        with self.assertRaises(ValueError):
            ring_numbers(5, 4)


if __name__ == "__main__":
    unittest.main()
