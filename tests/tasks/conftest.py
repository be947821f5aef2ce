"""A small suite on disk, to be broken in one place by each test."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

PAPERS = """\
- id: good
  title: A good paper
  venue: Test 2026
  annotated_file_paths: model.py
  context_file_paths: null
"""

MODEL = '''\
"""Doubles things."""


def double(x):
    # <paper2code name="double it">
    # twice
    y = x + x
    # <paper2code name="give it back">
    return y
    # </paper2code name="give it back">
    # </paper2code name="double it">
'''

TEST = """\
import unittest

from model import double
from model_ref import twice


class T(unittest.TestCase):
    def test_double(self):
        self.assertEqual(double(2), twice(2))


if __name__ == "__main__":
    unittest.main()
"""

WriteSuite = Callable[[dict[str, str | bytes]], Path]


@pytest.fixture
def write_suite(tmp_path: Path) -> WriteSuite:
    """Return a function that writes a good suite with some files replaced or added."""

    def write(changes: dict[str, str | bytes]) -> Path:
        return write_files(tmp_path / "suite", FILES | changes)

    return write


FILES: dict[str, str | bytes] = {
    "papers.yaml": PAPERS,
    "good/model.py": MODEL,
    "good/model_ref.py": "def twice(x):\n    return 2 * x\n",
    "good/paper2code_test.py": TEST,
    "good/paper2code_paper.md": "# Doubling\n\nTake it twice.\n",
}


def write_files(root: Path, files: Mapping[str, str | bytes]) -> Path:
    """Write files below a folder and return it."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return root
