"""Hidden tests of Even Lines: equal to the reference, which tries everything, and the text's edge cases by hand."""

import random
import unittest

import wrap_ref as reference
from wrap import WidthError, break_lines, justify, penalty

ALPHABET = "abcdefgh"


def random_words(seed, count, longest):
    draw = random.Random(seed)
    return ["".join(draw.choices(ALPHABET, k=draw.randint(1, longest))) for _ in range(count)]


class EquivalenceTest(unittest.TestCase):
    def test_breaking(self):
        for seed in range(60):
            text = " ".join(random_words(seed, count=2 + seed % 9, longest=6))
            width = 6 + seed % 11
            self.assertEqual(break_lines(text, width), reference.breaking(text, width))

    def test_penalty(self):
        for seed in range(60):
            words = random_words(seed, count=1 + seed % 4, longest=5)
            for width in (23, 30, 41):
                for last in (False, True):
                    self.assertEqual(penalty(words, width, last), reference.weigh(words, width, last))

    def test_justify(self):
        for seed in range(40):
            words = random_words(seed, count=1 + seed % 5, longest=4)
            for flip in (False, True):
                self.assertEqual(justify(words, 26, flip), reference.fill(words, 26, flip))


class EdgeTest(unittest.TestCase):
    def test_last_line(self):
        self.assertEqual(penalty(["abcd"], 10, True), 0)
        self.assertEqual(penalty(["ab"], 10, True), 4)
        self.assertEqual(penalty(["a"], 11, True), 9)

    def test_stub(self):
        self.assertEqual(penalty(["abcdefg", "ab"], 10, False), 10)
        self.assertEqual(penalty(["abcdef", "abc"], 10, False), 0)
        self.assertEqual(penalty(["abcdefg", "a."], 11, False), 12)

    def test_ties_go_to_the_longer_first_line(self):
        self.assertEqual(break_lines("aaa bbb ccc", 7), [["aaa", "bbb"], ["ccc"]])
        self.assertEqual(break_lines("aaa bbb ccc ddd", 11), reference.breaking("aaa bbb ccc ddd", 11))

    def test_refusal_and_nothing(self):
        self.assertEqual(break_lines(" \n\t", 5), [])
        self.assertEqual(break_lines("abcde", 5), [["abcde"]])
        with self.assertRaises(WidthError):
            break_lines("ab abcdef", 5)

    def test_flip(self):
        self.assertEqual(justify(["a", "b", "c"], 8, False), "a   b  c")
        self.assertEqual(justify(["a", "b", "c"], 8, True), "a  b   c")


if __name__ == "__main__":
    unittest.main()
