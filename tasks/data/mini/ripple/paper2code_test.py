"""Hidden tests of Ripple: equal to the list-based reference on random graphs, and the text's rules by hand."""

import math
import unittest

import numpy as np
import ripple_ref as reference
from propagation import add_loops, propagate, skewed_operator
from readout import graph_embedding, node_features, pool, rank_scores


def random_case(seed):
    """A random graph with an isolated last node, a loop and a repeated edge, and a signal of a few columns."""
    rng = np.random.default_rng(seed)
    size = int(rng.integers(4, 9))
    edges = []
    for first in range(size - 1):
        for second in range(first + 1, size - 1):
            if rng.random() < 0.6:
                edges.append((first, second, float(rng.uniform(0.2, 3.0))))
    edges += [(1, 0, 0.7), (0, 1, 1.9), (2, 2, 5.0)]
    return edges, rng.normal(size=(size, int(rng.integers(1, 4)))), rng


class EquivalenceTest(unittest.TestCase):
    def test_waves(self):
        for seed, (hops, restart) in enumerate(((3, 0.4), (1, 0.0), (4, 1.0), (6, 0.25))):
            edges, signal, _ = random_case(seed)
            got = propagate(edges, signal, hops=hops, restart=restart)
            expected = reference.propagate(edges, signal, hops=hops, restart=restart)
            self.assertEqual(len(got), hops + 1)
            for ours, theirs in zip(got, expected, strict=True):
                np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)

    def test_node_features(self):
        for seed, hops in ((10, 2), (11, 3), (12, 5)):
            edges, signal, _ = random_case(seed)
            got = node_features(edges, signal, hops=hops, restart=0.3)
            expected = reference.node_features(edges, signal, hops=hops, restart=0.3)
            np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-7)

    def test_rank_scores(self):
        for seed in (20, 21, 22):
            values = np.random.default_rng(seed).integers(0, 5, size=7 + seed % 3).astype(float)
            np.testing.assert_allclose(rank_scores(values), reference.rank_scores(values), rtol=1e-12)

    def test_pool(self):
        for seed, keep in ((30, None), (31, 2), (32, 50), (33, None)):
            rng = np.random.default_rng(seed)
            features = rng.normal(size=(5 + seed % 4, 3))
            scores = rng.integers(0, 3, size=len(features)) / 4.0
            got = pool(features, scores, keep=keep)
            np.testing.assert_allclose(got, reference.pool(features, scores, keep=keep), rtol=1e-10, atol=1e-12)

    def test_graph_embedding(self):
        for seed, keep in ((40, None), (41, 3)):
            edges, signal, _ = random_case(seed)
            got = graph_embedding(edges, signal, hops=3, restart=0.4, keep=keep)
            expected = reference.graph_embedding(edges, signal, hops=3, restart=0.4, keep=keep)
            np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-7)

    def test_defaults(self):
        edges, signal, _ = random_case(50)
        np.testing.assert_allclose(graph_embedding(edges, signal), reference.graph_embedding(edges, signal), rtol=1e-6)


class OperatorTest(unittest.TestCase):
    def test_loop_is_the_mean_edge_and_a_half_when_alone(self):
        matrix = np.array([[0.0, 2.0, 4.0, 0.0], [2.0, 0.0, 0.0, 0.0], [4.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
        expected = matrix.copy()
        expected[0, 0], expected[1, 1], expected[2, 2], expected[3, 3] = 3.0, 2.0, 4.0, 0.5
        np.testing.assert_allclose(add_loops(matrix), expected, rtol=1e-12)
        np.testing.assert_allclose(matrix[0, 0], 0.0)

    def test_loops_against_reference(self):
        rng = np.random.default_rng(60)
        half = np.triu(rng.uniform(0.1, 2.0, size=(6, 6)) * (rng.random((6, 6)) < 0.5), 1)
        np.testing.assert_allclose(add_loops(half + half.T), reference.add_loops(half + half.T), rtol=1e-12)

    def test_receiver_cube_root_sender_two_thirds(self):
        looped = np.array([[8.0, 0.0], [0.0, 27.0]])
        np.testing.assert_allclose(skewed_operator(looped), np.eye(2), rtol=1e-12, atol=1e-15)
        looped = np.array([[4.0, 4.0], [4.0, 23.0]])
        expected = np.array([[4.0 / 8.0, 4.0 / (2.0 * 9.0)], [4.0 / (3.0 * 4.0), 23.0 / 27.0]])
        np.testing.assert_allclose(skewed_operator(looped), expected, rtol=1e-12)

    def test_operator_against_reference(self):
        looped = np.random.default_rng(61).uniform(0.1, 3.0, size=(5, 5))
        looped = looped + looped.T
        np.testing.assert_allclose(skewed_operator(looped), reference.skewed_operator(looped), rtol=1e-12)


class RuleTest(unittest.TestCase):
    def test_zero_hops(self):
        signal = np.array([[1.0, -4.0], [9.0, 0.25]])
        waves = propagate([(0, 1, 1.0)], signal, hops=0)
        self.assertEqual(len(waves), 1)
        np.testing.assert_allclose(waves[0], signal)
        np.testing.assert_allclose(node_features([(0, 1, 1.0)], signal, hops=0), [[1.0, -2.0], [3.0, 0.5]])

    def test_only_odd_hops_are_centred(self):
        waves = propagate([(0, 1, 2.0), (1, 2, 1.0)], [[1.0], [1.0], [4.0]], hops=2, restart=0.0)
        strength = np.array([4.0, 4.5, 2.0])
        self.assertAlmostEqual(float(strength @ waves[1][:, 0]), 0.0, places=12)
        expected = reference.propagate([(0, 1, 2.0), (1, 2, 1.0)], [[1.0], [1.0], [4.0]], hops=2, restart=0.0)
        np.testing.assert_allclose(waves[2], expected[2], rtol=1e-10)

    def test_best_of_equal_values_takes_the_last_rank(self):
        expected = [2 / math.pi * math.asin(math.sqrt(part)) for part in (0.625, 0.125, 0.625, 0.875)]
        np.testing.assert_allclose(rank_scores([2.0, 1.0, 2.0, 3.0]), expected, rtol=1e-12)
        self.assertAlmostEqual(float(rank_scores([5.0])[0]), 0.5, places=12)

    def test_ties_go_to_the_lower_index(self):
        features = np.array([[1.0, 0.0], [0.0, 1.0], [5.0, 5.0]])
        got = pool(features, [0.75, 0.75, 0.25], keep=2)
        np.testing.assert_allclose(got, [0.6, 0.4], rtol=1e-12)

    def test_keep_defaults_to_the_root_of_the_size_rounded_up(self):
        features = np.eye(5)
        got = pool(features, [0.1, 0.2, 0.3, 0.4, 0.5])
        np.testing.assert_allclose(got, np.array([0.0, 0.0, 3.0, 4.0, 6.0]) / 13.0, atol=1e-12)
        np.testing.assert_allclose(pool(np.eye(4), [0.4, 0.3, 0.2, 0.1]), [0.6, 0.4, 0.0, 0.0], atol=1e-12)

    def test_bad_edges_are_refused(self):
        with self.assertRaises(ValueError):
            propagate([(0, 5, 1.0)], [[1.0], [2.0]])
        with self.assertRaises(ValueError):
            propagate([(0, 1, 0.0)], [[1.0], [2.0]])


if __name__ == "__main__":
    unittest.main()
