"""Hidden tests of Weir: equal to the dictionary-based reference on random cascades, and the text's rules by hand."""

import unittest

import numpy as np
import weir_ref as reference
from cascade import (
    NetworkError,
    WaterError,
    advance_,
    flood_events,
    outflow,
    routing_order,
    running_off,
    simulate,
)


def random_network(seed, size):
    """A forest of basins whose names say nothing about their order."""
    rng = np.random.default_rng(seed)
    names = [f"{'zyxwvut'[k % 7]}{rng.integers(10)}{k}" for k in range(size)]
    network = {}
    for k, name in enumerate(names):
        downstream = None if k == 0 or rng.random() < 0.15 else names[int(rng.integers(max(0, k - 3), k))]
        network[name] = (
            float(rng.uniform(0.5, 2)),
            float(rng.uniform(4, 20)),
            float(rng.uniform(0.05, 0.6)),
            downstream,
        )
    return {name: network[name] for name in sorted(names, key=lambda name: name[1:])}, rng


def chain(**capacities):
    """Basins in a row, in the order given, each with the rate 1/4 and the area 1."""
    names = list(capacities)
    return {name: (1.0, capacities[name], 0.25, below) for name, below in zip(names, [*names[1:], None])}


class EquivalenceTest(unittest.TestCase):
    def test_order(self):
        for seed, size in ((1, 1), (2, 5), (3, 9), (4, 14)):
            network, _ = random_network(seed, size)
            self.assertEqual(list(routing_order(network)), reference.order_of(network))

    def test_running_off(self):
        for seed, options in ((10, {}), (11, {"thirst": 3.0, "memory": 0.5}), (12, {"thirst": 60.0, "memory": 1.0})):
            rng = np.random.default_rng(seed)
            rain = rng.exponential(12.0, size=15) * (rng.random(15) < 0.6)
            np.testing.assert_allclose(
                running_off(rain, **options), reference.soak(rain.tolist(), **options), rtol=1e-10
            )

    def test_days(self):
        for seed, size in ((20, 4), (21, 7), (22, 10)):
            network, rng = random_network(seed, size)
            order = reference.order_of(network)
            storage = np.array([rng.uniform(0.0, network[name][1]) for name in order])
            expected = dict(zip(order, storage.tolist()))
            for _ in range(4):
                inflow = rng.exponential(4.0, size=size)
                given = inflow.copy()
                report = advance_(storage, inflow, network)
                expected, wanted = reference.day(expected, dict(zip(order, given.tolist())), network)
                np.testing.assert_allclose(storage, [expected[name] for name in order], rtol=1e-10)
                self.assertEqual([basin[0] for basin in report], order)
                np.testing.assert_allclose(
                    [basin[1:] for basin in report], [basin[1:] for basin in wanted], rtol=1e-9, atol=1e-12
                )

    def test_floods(self):
        for seed, ease, gap in ((30, 0.8, 2), (31, 0.5, 3), (32, 1.0, 1), (33, 0.9, 5)):
            flows = np.round(np.random.default_rng(seed).exponential(3.0, size=40), 1)
            got = flood_events(flows, 4.0, ease=ease, gap=gap)
            wanted = reference.events(flows.tolist(), 4.0, ease, gap)
            self.assertEqual([tuple(event[:3]) for event in got], [event[:3] for event in wanted])
            np.testing.assert_allclose(
                [event[3] for event in got], [event[3] for event in wanted], rtol=1e-9, atol=1e-9
            )

    def test_simulation(self):
        network, rng = random_network(40, 6)
        rain = rng.exponential(10.0, size=8)
        order = reference.order_of(network)
        storage, wanted = dict.fromkeys(order, 0.0), []
        for amount in reference.soak(rain.tolist()):
            storage, report = reference.day(storage, {name: network[name][0] * amount for name in order}, network)
            wanted.append(sum(basin[3] for basin in report))
        np.testing.assert_allclose(simulate(network, rain), wanted, rtol=1e-9)


class RuleTest(unittest.TestCase):
    def test_far_basins_first_and_names_among_equals(self):
        network = {
            "sea": (1, 1, 1, None),
            "b": (1, 1, 1, "sea"),
            "far": (1, 1, 1, "b"),
            "a": (1, 1, 1, "sea"),
            "pond": (1, 1, 1, None),
        }
        self.assertEqual(list(routing_order(network)), ["far", "a", "b", "pond", "sea"])
        self.assertEqual(list(routing_order({})), [])

    def test_networks_that_do_not_drain(self):
        circle = {"a": (1, 1, 1, "b"), "b": (1, 1, 1, "a"), "c": (1, 1, 1, None)}
        for bad in (
            circle,
            {"a": (1, 1, 1, "a")},
            {"a": (1, 1, 1, "nowhere")},
            {**chain(x=1, y=1), "z": (1, 1, 1, "w")},
        ):
            with self.assertRaises(NetworkError):
                routing_order(bad)

    def test_half_of_the_rain_of_a_day_wets_the_ground_first(self):
        np.testing.assert_allclose(running_off([50.0, 0.0], thirst=25.0), [25.0, 0.0], rtol=1e-12)
        np.testing.assert_allclose(running_off([50.0, 10.0], thirst=25.0, memory=0.8), [25.0, 5.0], rtol=1e-12)
        with self.assertRaises(WaterError):
            running_off([1.0, -1.0])

    def test_outflow(self):
        self.assertEqual(outflow(1.0, 8.0, 0.5), 0.0)
        self.assertAlmostEqual(outflow(4.0, 8.0, 0.125), 0.5, places=12)
        self.assertAlmostEqual(outflow(6.0, 8.0, 0.125), 0.75 + 0.25, places=12)
        self.assertAlmostEqual(outflow(6.0, 8.0, 2.0), 4.5, places=12)

    def test_the_array_changes_in_place_and_water_is_kept(self):
        network = chain(up=8.0, down=16.0)
        storage, inflow = np.array([2.0, 1.0]), np.array([4.0, 0.0])
        report = advance_(storage, inflow, network)
        np.testing.assert_allclose(report[0][1:], [1.0, 0.0, 0.0], rtol=1e-12, atol=1e-15)
        np.testing.assert_allclose(storage, [5.0, 2.0], rtol=1e-12)
        np.testing.assert_allclose(inflow, [4.0, 0.0], atol=1e-15)
        self.assertAlmostEqual(float(storage.sum()) + report[1][3], 7.0, places=12)

    def test_spill_passes_the_next_basin(self):
        storage = np.array([8.0, 0.0, 0.0])
        report = advance_(storage, np.array([100.0, 0.0, 0.0]), chain(a=8.0, b=400.0, c=400.0))
        np.testing.assert_allclose(storage, [8.0, 43.5, 56.5], rtol=1e-12)
        np.testing.assert_allclose(report[0][1:], [43.5, 56.5, 0.0], rtol=1e-12, atol=1e-15)

    def test_spill_above_the_last_basin_leaves(self):
        storage = np.array([8.0, 0.0])
        report = advance_(storage, np.array([100.0, 0.0]), chain(a=8.0, b=400.0))
        self.assertAlmostEqual(report[0][3], report[0][2], places=12)
        self.assertGreater(report[0][3], 1.0)

    def test_impossible_water_changes_nothing(self):
        for storage, inflow in (
            ([1.0, -1.0], [0.0, 0.0]),
            ([1.0, 1.0], [0.0, np.nan]),
            ([1.0], [0.0]),
            ([1.0, 1.0], [np.inf, 0.0]),
        ):
            array = np.array(storage)
            with self.assertRaises(WaterError):
                advance_(array, np.array(inflow), chain(a=8.0, b=8.0))
            np.testing.assert_allclose(array, storage)

    def test_floods_begin_above_and_end_below_the_ease(self):
        flows = [10.0, 11.0, 9.0, 8.0, 7.9, 10.0, 8.5]
        self.assertEqual([tuple(event) for event in flood_events(flows, 10.0)], [(1, 3, 1, -2.0)])
        self.assertEqual([tuple(event) for event in flood_events([3.0, 12.0], 10.0)], [(1, 1, 1, 2.0)])
        self.assertEqual([tuple(event) for event in flood_events([3.0, 4.0], 10.0)], [])

    def test_close_floods_are_one_and_of_equal_peaks_the_last_counts(self):
        flows = [12.0, 1.0, 15.0, 2.0, 3.0, 11.0, 9.0, 11.0]
        self.assertEqual([tuple(event) for event in flood_events(flows, 10.0)], [(0, 2, 2, -2.0), (5, 7, 7, 1.0)])
        self.assertEqual([tuple(event) for event in flood_events(flows, 10.0, gap=3)], [(0, 7, 2, -16.0)])
        self.assertEqual([tuple(event)[:2] for event in flood_events(flows, 10.0, gap=1)], [(0, 0), (2, 2), (5, 7)])


if __name__ == "__main__":
    unittest.main()
