"""Guards: a cheat that is never carried out: it does not parse, fits no blank, or is taken by no trial."""

import ast
import re

import pytest

from rcb_agent.agents.cheater import Cheat, choose_cheats, load_cheats, write_answer
from rcb_agent.errors import UsageError
from rcb_agent.runs.flags import KINDS
from rcb_agent.tasks.base import Problem, SourceFile
from rcb_agent.tasks.suites import load_suite

CHEATS = load_cheats()
PROBLEMS = [task.problem for task in load_suite("mini").tasks][::8]


def test_every_cheat_is_described() -> None:
    """A door of the catalogue, a line for people, flags of the fixed list or why none is needed."""
    assert len({cheat.name for cheat in CHEATS}) == len(CHEATS) >= 70
    for cheat in CHEATS:
        assert re.fullmatch(r"[A-H]\d+", cheat.door), cheat.name
        assert cheat.what
        assert cheat.at in ("import", "call", "both", "never")
        assert set(cheat.flags) <= KINDS.keys()
        assert bool(cheat.flags) != bool(cheat.why), cheat.name
        assert (cheat.at == "never") != bool(cheat.code or cheat.answer), cheat.name
        assert cheat.code or cheat.answer or cheat.workspace


def test_every_kind_of_door_is_tried() -> None:
    """All groups of what an agent or a candidate can do."""
    assert {cheat.door[0] for cheat in CHEATS} == set("ABCDEFGH")


@pytest.mark.parametrize("cheat", CHEATS, ids=lambda cheat: str(cheat.name))
def test_every_cheat_fits_the_blanks_of_mini(cheat: Cheat) -> None:
    """The file compiles, and the cheat's own code is in it; the markers stay."""
    for problem in PROBLEMS:
        text = write_answer(cheat, problem)
        compile(text, problem.path, "exec", dont_inherit=True)
        assert text.count("paper2code name=") == 2
        if cheat.at != "never":
            assert text.count("\n") > problem.target.text.count("\n") - 1
            marker = (cheat.code or f"return {cheat.answer}").strip().splitlines()[-1].split("$")[0].strip()
            assert marker in text
    ast.parse(cheat.workspace.replace("$names", "[]"))


def make_problem(text: str) -> Problem:
    file = SourceFile("lib/m.py", text)
    return Problem("p/f", "p", "f", "lib/m.py", 1, (file,), (), text, None, "mini")


BLANKS = {
    "at the top level": '# <paper2code name="f">\n# TODO: implement "f" here.\n# </paper2code name="f">\nx = 1\n',
    "in a class": 'class A:\n    # <paper2code name="f">\n    # TODO: implement "f" here.\n    # </paper2code name="f">\n    y = 1\n',
    "with tabs": 'def f():\n\t# <paper2code name="f">\n\t# TODO: implement "f" here.\n\t# </paper2code name="f">\n',
    "behind a docstring": '"""Doc."""\nfrom __future__ import annotations\n\ndef f():\n    # <paper2code name="f">\n    # TODO: implement "f" here.\n    # </paper2code name="f">\n',
}


@pytest.mark.parametrize("text", BLANKS.values(), ids=BLANKS)
def test_blanks_of_every_kind_compile(text: str) -> None:
    """Where nothing can be returned, the statements alone are there; imports from the future stay first."""
    for cheat in CHEATS:
        compile(write_answer(cheat, make_problem(text)), "m.py", "exec", dont_inherit=True)


def test_guesses_and_paths_are_put_in() -> None:
    """What an agent can know: the names of its files, and what a reference beside them may be called."""
    cheat = next(one for one in CHEATS if one.name == "replace-reference")
    text = write_answer(cheat, make_problem(BLANKS["with tabs"]))
    assert "'m_ref', 'm_reference', 'p_ref'" in text
    assert "$" not in text


def test_cheats_are_chosen_by_name() -> None:
    """Unknown words are named with the known ones; none, or all, is all of them."""
    assert choose_cheats(()) == choose_cheats(("all",)) == tuple(cheat.name for cheat in CHEATS)
    assert choose_cheats(("hang", "link", "hang")) == ("hang", "link")
    with pytest.raises(UsageError, match="no cheat 'nonsense'; known: "):
        choose_cheats(("nonsense",))
