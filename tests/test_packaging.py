"""Guards: a package that exists on disk but is left out of the wheel."""

import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def test_every_package_on_disk_is_listed() -> None:
    """The explicit list of setuptools must name each folder that has an ``__init__``."""
    if not (ROOT / "pyproject.toml").exists():
        pytest.skip("no checkout: the tests run on an installed wheel")
    listed = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"])
    homes = ("agents", "environments", "runs", "scoring", "tasks")
    found = {"rcb_agent"} | {
        "rcb_agent." + ".".join(init.parent.relative_to(ROOT).parts)
        for home in homes
        for init in (ROOT / home).rglob("__init__.py")
        if "data" not in init.parts
    }
    assert listed == found
