"""Hidden tests of Silt: equal to the list-based reference on random signals, and the text's edge cases by hand."""

import math
import unittest

import numpy as np
import packing_ref as reference
from packing import BlockError, HeaderError, block_scale, encode_block, pack, settle_, unpack, verify


def random_signal(seed, size):
    """Loud and quiet stretches, so that blocks get different scales and some entries saturate."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=size) * np.exp(rng.normal(size=size)) * np.repeat(10.0 ** rng.normal(size=size), 5)[:size]


def good_pack():
    """A pack of two blocks of three entries, made by the reference."""
    made = reference.pack([1.0, -2.0, 3.0, 0.5, 0.25], block=3, bits=4)
    return {
        "codes": np.array(made["codes"]),
        "scales": np.array(made["scales"]),
        "checks": np.array(made["checks"]),
        "length": 5,
        "top": 7,
    }


class EquivalenceTest(unittest.TestCase):
    def test_pack_and_unpack(self):
        for seed, (size, block, bits) in enumerate(((40, 8, 5), (23, 4, 3), (7, 8, 8), (30, 5, 2), (1, 3, 4))):
            signal = random_signal(seed, size)
            got, expected = pack(signal, block=block, bits=bits), reference.pack(signal, block=block, bits=bits)
            np.testing.assert_allclose(got["scales"], expected["scales"], rtol=1e-12)
            np.testing.assert_array_equal(got["codes"], expected["codes"])
            np.testing.assert_array_equal(got["checks"], expected["checks"])
            self.assertEqual((got["length"], got["top"]), (expected["length"], expected["top"]))
            plain = {key: np.array(value) if isinstance(value, list) else value for key, value in expected.items()}
            np.testing.assert_allclose(unpack(plain), reference.unpack(expected), rtol=1e-12)

    def test_settle(self):
        for seed, floor in ((10, 0.125), (11, 0.5), (12, 0.02), (13, 1.0)):
            signal = random_signal(seed, 17)
            signal[[2, 9]] = 0.0
            buffer = signal.copy()
            moved = settle_(buffer, floor=floor)
            expected, count = reference.settle(signal.tolist(), floor)
            self.assertEqual(moved, count)
            np.testing.assert_allclose(buffer, expected, rtol=1e-12, atol=1e-15)


class SettleTest(unittest.TestCase):
    def test_left_first_then_right(self):
        buffer = np.array([0.5, -0.25, 8.0, 0.5, 0.0, -0.5, -4.0, 0.25])
        self.assertEqual(settle_(buffer), 5)
        np.testing.assert_allclose(buffer, [0.0, 0.0, 8.25, 0.0, 0.0, 0.0, -3.75, 0.0])

    def test_an_entry_at_the_floor_stays(self):
        buffer = np.array([8.0, 1.0, -1.0, 0.875])
        self.assertEqual(settle_(buffer), 1)
        np.testing.assert_allclose(buffer, [8.0, 1.0, -0.125, 0.0])

    def test_silence(self):
        buffer = np.zeros(3)
        self.assertEqual(settle_(buffer), 0)
        np.testing.assert_allclose(buffer, np.zeros(3))

    def test_refusals(self):
        for bad in (np.array([1.0, np.nan]), np.ones((2, 2)), np.array([np.inf])):
            with self.assertRaises(HeaderError):
                settle_(bad)


class ScaleTest(unittest.TestCase):
    def test_nearest_half_octave(self):
        self.assertAlmostEqual(block_scale(np.array([0.0, -7.0]), 7), 1.0, places=14)
        self.assertAlmostEqual(block_scale(np.array([7.0 * 1.18]), 7), 1.0, places=14)
        self.assertAlmostEqual(block_scale(np.array([7.0 * 1.20, 3.0]), 7), math.sqrt(2), places=14)
        self.assertAlmostEqual(block_scale(np.array([3.0 / 4.0]), 3), 0.25, places=14)

    def test_silent_block(self):
        self.assertEqual(block_scale(np.zeros(4), 7), 1.0)

    def test_very_quiet_blocks_share_the_smallest_scale(self):
        self.assertEqual(block_scale(np.array([1e-12]), 3), 2.0**-20)
        self.assertAlmostEqual(block_scale(np.array([3.0 * 2.0**-19.5]), 3) * 2.0**19.5, 1.0, places=12)

    def test_too_loud(self):
        self.assertEqual(block_scale(np.array([3.0 * 2.0**20]), 3), 2.0**20)
        with self.assertRaises(BlockError):
            block_scale(np.array([3.0 * 2.0**20.5]), 3)
        with self.assertRaises(BlockError):
            pack([1.0, -1e9], block=2)


class RoundingTest(unittest.TestCase):
    def test_halves_go_away_from_zero(self):
        self.assertEqual(encode_block(np.array([0.5]), 1.0, top=7, backwards=False).tolist(), [1])
        self.assertEqual(encode_block(np.array([-2.5]), 1.0, top=7, backwards=False).tolist(), [-3])

    def test_saturation_and_limited_carry(self):
        got = encode_block(np.array([20.0, 0.0, 0.0]), 1.0, top=7, backwards=False).tolist()
        self.assertEqual(got, [7, 1, 0])
        got = encode_block(np.array([-9.0, 5.0, 0.0]), 2.0, top=3, backwards=False).tolist()
        self.assertEqual(got, reference.encode([-9.0, 5.0, 0.0], 2.0, 3, False))

    def test_direction(self):
        block = np.array([0.3, 0.3, 0.3, 0.3])
        self.assertEqual(encode_block(block, 1.0, top=7, backwards=False).tolist(), [0, 1, 0, 0])
        self.assertEqual(encode_block(block, 1.0, top=7, backwards=True).tolist(), [0, 0, 1, 0])

    def test_random_blocks(self):
        rng = np.random.default_rng(70)
        for scale, top in ((0.3, 3), (1.0, 7), (0.11, 15), (2.0, 1)):
            block = rng.normal(size=12) * 2.0
            for backwards in (False, True):
                got = encode_block(block, scale, top=top, backwards=backwards).tolist()
                self.assertEqual(got, reference.encode(block.tolist(), scale, top, backwards))


class DamageTest(unittest.TestCase):
    def refuse(self, error, **changes):
        with self.assertRaises(error):
            verify({**good_pack(), **changes})

    def changed(self, key, place, value):
        array = good_pack()[key].copy()
        array[place] = value
        return {key: array}

    def test_a_good_pack_is_accepted(self):
        self.assertEqual(verify(good_pack()), 2)
        self.assertEqual(verify({**good_pack(), "length": 6}), 2)
        self.assertEqual(verify({**good_pack(), "length": 4}), 2)

    def test_length_must_end_in_the_last_block(self):
        for length in (7, 3, 0, -1):
            self.refuse(HeaderError, length=length)

    def test_counts_must_agree(self):
        self.refuse(HeaderError, scales=np.ones(3))
        self.refuse(HeaderError, checks=good_pack()["checks"][:1])
        self.refuse(HeaderError, codes=good_pack()["codes"].ravel())
        self.refuse(HeaderError, codes=np.array([1, 2]), length=2)

    def test_scales(self):
        for scale in (0.0, -1.0, np.inf, np.nan):
            self.refuse(BlockError, **self.changed("scales", 1, scale))

    def test_codes_in_range(self):
        codes = good_pack()["codes"]
        for value in (8, -8):
            changed = codes.copy()
            changed[0, 0] = value
            self.refuse(BlockError, codes=changed, checks=np.array([reference.check(row) for row in changed.tolist()]))
        changed[0, 0] = -7
        checks = np.array([reference.check(row) for row in changed.tolist()])
        self.assertEqual(verify({**good_pack(), "codes": changed, "checks": checks}), 2)

    def test_checksum(self):
        self.refuse(BlockError, **self.changed("checks", 1, (good_pack()["checks"][1] + 1) % 31))
        self.refuse(BlockError, **self.changed("codes", (0, 1), 0))

    def test_the_header_is_looked_at_first(self):
        self.refuse(HeaderError, length=99, **self.changed("scales", 0, -1.0))


if __name__ == "__main__":
    unittest.main()
