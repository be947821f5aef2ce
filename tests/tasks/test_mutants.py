"""Guards: mutants that differ from machine to machine, do not parse, change nothing, or leave their blank."""

import ast
import hashlib
import os
import subprocess
import sys

import pytest

from rcb_agent.tasks.mutants import Mutant, make_mutants, mutants_of
from rcb_agent.tasks.suites import load_suite

TASKS = load_suite("mini").tasks

BEFORE = "def f(x, é=1):\n    naïve = 'ü'\n"
GOLD = "    # é\n    y = max(x, 2) * -x[0] + 1.5\n    if y <= 3 and x:\n        y -= (x[0] +\n              x[1])\n"
AFTER = "    return y + 7\n"
FINGERPRINT = """\
import hashlib
from rcb_agent.tasks.mutants import mutants_of
from rcb_agent.tasks.suites import load_suite
print(hashlib.sha256(repr([mutants_of(task, seed=3, count=9) for task in load_suite("mini").tasks]).encode()).hexdigest())
"""


def mutate(seed: int = 0, count: int = 1000) -> tuple[Mutant, ...]:
    """Return mutants of the sample above."""
    return make_mutants(GOLD, before=BEFORE, after=AFTER, seed=seed, count=count)


def test_each_is_valid_different_and_inside_the_blank() -> None:
    """A mutant that does not parse dies for the wrong reason; one equal to the gold never dies."""
    mutants = mutate()
    trees = [ast.dump(ast.parse(BEFORE + mutant.code + AFTER)) for mutant in mutants]
    assert len(set(trees)) == len(mutants) > 20
    assert ast.dump(ast.parse(BEFORE + GOLD + AFTER)) not in trees
    assert all(ast.parse(BEFORE + mutant.code + AFTER) for mutant in mutants)


@pytest.mark.parametrize(
    "line",
    [
        "    y = min(x, 2) * -x[0] + 1.5",
        "    y = max(x, 3) * -x[0] + 1.5",
        "    y = max(x, 2) * (x[0]) + 1.5",
        "    y = max(x, 2) * -x[1] + 1.5",
        "    y = max(x, 2) / -x[0] + 1.5",
        "    y = max(x, 2) * -x[0] - 1.5",
        "    y = (max(x, 2) * -x[0])",
        "    if y < 3 and x:",
        "    if y <= 3 or x:",
        "    if (not (y <= 3 and x)):",
        "        pass",
        "        y -= (x[0] -",
    ],
)
def test_kinds_of_edits(line: str) -> None:
    """Each kind of slip the page promises is really made, also across lines and after non-ASCII text."""
    assert any(line in mutant.code.split("\n") for mutant in mutate())


def test_symmetric_calls_and_messages_are_left_alone() -> None:
    """Swapping the arguments of max, or changing an error's text, makes no wrong program."""
    gold = '    if x < 0:\n        raise ValueError(f"{x + 1} is " + "bad", 1)\n    return max(x, 2)\n'
    codes = [mutant.code for mutant in make_mutants(gold, before="def f(x):\n", after="", seed=0, count=99)]
    assert not any("max(2, x)" in code for code in codes)
    assert all("raise" not in code or 'ValueError(f"{x + 1} is " + "bad", 1)' in code for code in codes)


def test_seed_decides_and_count_bounds() -> None:
    """Fewer mutants are the first of more, and another seed chooses others."""
    assert mutate(count=5) == mutate(count=9)[:5]
    assert mutate(seed=1, count=5) != mutate(seed=2, count=5)
    assert set(mutate(seed=1)) == set(mutate(seed=2))


def test_code_before_the_blank_does_not_choose() -> None:
    """A comment added elsewhere in the file must not give another audit."""
    mine = make_mutants(GOLD, before=f"# more\n{BEFORE}", after=AFTER, seed=0, count=9)
    assert [mutant.code for mutant in mine] == [mutant.code for mutant in mutate(count=9)]


def test_sites_take_turns() -> None:
    """Five mutants of one constant would say nothing of the rest of the blank."""
    for task in TASKS:
        few = mutants_of(task, seed=0, count=5)
        assert len({mutant.description for mutant in few}) == len(few) == 5


def test_code_without_edits_has_no_mutants() -> None:
    """What does not parse, or offers nothing to edit, is answered with nothing rather than an error."""
    assert make_mutants("x\n", before="def f(:\n", after="", seed=0, count=5) == ()
    assert make_mutants("y = x\n", before="x = 1\n", after="", seed=0, count=5) == ()
    assert make_mutants("", before="x = 1\n", after="", seed=0, count=5) == ()


def test_a_copy_of_the_gold_elsewhere_is_not_touched() -> None:
    """The same line may stand in the file twice; only the blank's own changes."""
    line = "    x = x + 1\n"
    mutants = make_mutants(line, before=f"def f(x):\n{line}", after="    return x\n", seed=0, count=9)
    assert all(mutant.code.count("\n") == 1 and mutant.code != line for mutant in mutants)
    assert len(mutants) > 2


def test_same_in_another_process() -> None:
    """Hash randomisation must not choose the mutants, else two audits cannot be compared."""
    mine = repr([mutants_of(task, seed=3, count=9) for task in TASKS])
    done = subprocess.run(
        [sys.executable, "-c", FINGERPRINT],
        env={**os.environ, "PYTHONHASHSEED": "77"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == hashlib.sha256(mine.encode()).hexdigest()
