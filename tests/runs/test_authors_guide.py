"""Guards: an author's guide whose commands and files no longer lead where it says, and an example that is not its outcome."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GUIDE, EXAMPLE = ROOT / "docs" / "authors-guide.md", ROOT / "examples" / "suites" / "texts"
STEP = re.compile(
    r"^File `(?P<path>[^`]+)`:\n\n```\w+\n(?P<text>.*?)^```$|^```console\n(?P<console>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
CODE = re.compile(r"# exit code (\d+)")

pytestmark = [
    pytest.mark.checkout,
    pytest.mark.sandbox,
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="bwrap is not on PATH"),
    pytest.mark.skipif(not GUIDE.exists(), reason="no checkout: docs and examples are not part of the wheel"),
]


def carry_out(console: str, folder: Path) -> None:
    """Carry out the commands of a block; what it shows below each must be printed, but for spacing."""
    for part in re.split(r"^\$ ", console, flags=re.MULTILINE)[1:]:
        lines = part.split("\n")
        last = next(place for place, line in enumerate(lines) if not line.endswith("\\"))
        command, shown = "\n".join(lines[: last + 1]), lines[last + 1 :]
        done = subprocess.run(
            [*offline(), "bash", "-c", command],
            cwd=folder,
            env=environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        wanted = int(found[1]) if (found := CODE.search(command)) else 0
        assert done.returncode == wanted, f"{command}\n{done.stdout}{done.stderr}"
        printed = [squeeze(line) for line in done.stdout.split("\n")]
        for line in filter(None, map(squeeze, shown)):
            assert any(one.startswith(line) for one in printed), f"{command}\nshould print {line!r}\n{done.stdout}"


def squeeze(line: str) -> str:
    return " ".join(line.split())


def environment() -> dict[str, str]:
    """The command that is tested comes first."""
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


def offline() -> list[str]:
    """Without a network where that can be had: a suite of one's own leaves no machine."""
    words = ["unshare", "--net"]
    allowed = (
        shutil.which("unshare") and subprocess.run([*words, "true"], capture_output=True, check=False).returncode == 0
    )
    return words if allowed else []


def test_the_guide_leads_from_nothing_to_the_example(tmp_path: Path) -> None:
    """In an empty folder: every file written, every command carried out, in order, without a network."""
    steps = list(STEP.finditer(GUIDE.read_text()))
    assert len(steps) > 8
    for step in steps:
        if step["console"] is not None:
            carry_out(step["console"], tmp_path)
        else:
            (tmp_path / step["path"]).write_text(step["text"])
    assert files_of(tmp_path / "texts") == files_of(EXAMPLE)


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
    }
