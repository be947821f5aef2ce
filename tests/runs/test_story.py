"""Guards: a story whose commands no longer work, or whose tables are no longer those that the commands print."""

import re
from pathlib import Path

import pytest

from scripts.story import STORY, cut, find_blocks
from tests.runs.command import rcb_agent

NARROW = ["--tasks", "tidal/bre*", "--tasks", "tidal/hei*", "--tasks", "weir/rain*", "--max-steps", "12"]
_HEADS = re.compile(r"┃([^┃\n]*[a-z%$][^┃\n]*)(?=┃)")


@pytest.mark.checkout
@pytest.mark.sandbox
def test_the_storys_commands_print_the_storys_tables(tmp_path: Path) -> None:
    """Over fewer tasks, so the numbers differ: every head of a table, every arm and every effect is there."""
    text = STORY.read_text(encoding="utf-8")
    blocks = list(find_blocks(text))
    assert len(blocks) == text.count("$ rcb-agent") == 6
    for block in blocks:
        is_run = block.words[0] in ("run", "ablate")
        done = rcb_agent(*block.words, *(NARROW if is_run else []), cwd=tmp_path)
        assert done.code == 0, (block.command, done.err)
        heads = {head.strip() for head in _HEADS.findall(block.output)}
        missing = {head for head in heads if head not in done.out and not head.startswith("at ")}
        assert not missing, (block.command, missing)
        firsts = {line.split("│")[1].strip() for line in block.output.splitlines() if line.startswith("│")}
        assert not {name for name in firsts if name not in done.out}, block.command


def test_what_stands_in_the_story_is_output_that_was_cut() -> None:
    """No block was written by hand: each ends with a table's or plot's end, or with what says that more came."""
    for block in find_blocks(STORY.read_text(encoding="utf-8")):
        assert block.output == cut(block.output) or block.output.endswith("\n...\n"), block.command
    assert "is a script, not a language model" in STORY.read_text(encoding="utf-8")
