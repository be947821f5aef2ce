"""Runs the commands of docs/story.md in a temporary folder and puts their output into it, in place of what stood there.

Lines after the last table or plot of an output are cut, which ``...`` says. Takes some minutes.
"""

import argparse
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

STORY = Path(__file__).resolve().parent.parent / "docs" / "story.md"
_BLOCK = re.compile(r"```console\n\$ (?P<command>rcb-agent .*)\n(?P<output>(?:.*\n)*?)```\n")
_DRAWN = re.compile(r"[┏┃┡│└┗─]")


@dataclass(frozen=True)
class Block:
    """One command of the story and the output that stands beneath it."""

    command: str
    output: str

    @property
    def words(self) -> list[str]:
        """The words after ``rcb-agent``."""
        return shlex.split(self.command)[1:]


def find_blocks(text: str) -> Iterator[Block]:
    """Yield the commands of a page, in order."""
    yield from (Block(match["command"], match["output"]) for match in _BLOCK.finditer(text))


def run(words: Sequence[str], folder: Path) -> str:
    """Carry out one command; raises CalledProcessError where it fails."""
    command = [sys.executable, "-m", "rcb_agent", *words]
    return subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, check=True, text=True).stdout


def cut(output: str) -> str:
    """Return an output up to its last table."""
    lines = [line.rstrip() for line in output.split("\n")]
    last = max((place for place, line in enumerate(lines) if _DRAWN.search(line)), default=len(lines) - 1)
    rest = [line for line in lines[last + 1 :] if line]
    return "\n".join([*lines[: last + 1], *(["..."] if rest else [])]) + "\n"


def main() -> None:
    """Run every command and write what it prints."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    text = STORY.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        for block in find_blocks(text):
            print(block.command, file=sys.stderr)
            fresh = cut(run(block.words, Path(folder)))
            text = text.replace(f"$ {block.command}\n{block.output}```", f"$ {block.command}\n{fresh}```")
    STORY.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
