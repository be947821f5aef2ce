"""Guards: trivial answers that do not parse, are the gold code itself, or keep what they should put out of action."""

import ast

import pytest

from rcb_agent.tasks.suites import load_suite
from rcb_agent.tasks.trivial import make_trivial, trivial_candidates

BEFORE = "class C:\n    def f(self, first, other):\n        'ü'\n"
AFTER = "        return self.kept\n"
RETURNED = (
    "        if other:\n            return (first * 2,\n                    {'a': [other]})\n        return first + 1\n"
)
ASSIGNED = "        rest = other\n        self.kept = first * 3\n        self.seen(rest)\n"


def results(gold: str, after: str) -> dict[str, object]:
    """What each trivial answer of a blank gives for (4, 5), by its name."""
    found = {}
    for candidate in make_trivial(gold, before=BEFORE, after=after):
        names: dict[str, type] = {}
        exec(BEFORE + candidate.code + after, names)  # noqa: S102 - our own sample
        subject = type("D", (names["C"],), {"seen": lambda *_: None})()
        found[candidate.description.partition(" became ")[2]] = subject.f(4, 5)
    return found


@pytest.mark.parametrize(
    ("gold", "after", "zero", "one"),
    [(RETURNED, "", (0, {"a": [0]}), (1, {"a": [1]})), (ASSIGNED, AFTER, 0, 1)],
    ids=["returned", "assigned"],
)
def test_the_answer_has_the_right_kind_and_nothing_in_it(gold: str, after: str, zero: object, one: object) -> None:
    """A container keeps its keys and lengths: only a test that looks at the content can tell."""
    assert results(gold, after) == {"zeros": zero, "a constant": one, "the input": 4}


def test_the_gold_code_itself_is_no_wrong_answer() -> None:
    """A blank that hands its input back has no candidate that does the same."""
    descriptions = [one.description for one in make_trivial("        return first\n", before=BEFORE, after="")]
    assert descriptions == ["what it answers became zeros", "what it answers became a constant"]


GUARDED = "        if not first:\n            return other\n        height = first * 2\n"


def test_a_guard_at_the_top_is_not_all_that_is_answered() -> None:
    """An early return and what the code after the blank uses: both are put out of action, or the gold is as good as kept."""
    assert results(GUARDED, "        return height + 1\n") == {"zeros": 1, "a constant": 2, "the input": 5}


def test_a_literal_is_no_answer() -> None:
    """``count += 1`` with a constant 1 in its place is the gold code."""
    assert make_trivial("        self.count += 1\n", before=BEFORE, after=AFTER) == ()


def test_a_blank_that_answers_nothing_has_none() -> None:
    """Calls alone leave nothing to put out of action; the empty answer is tried anyway."""
    assert make_trivial("        self.seen(first)\n", before=BEFORE, after=AFTER) == ()
    assert make_trivial("        return (\n", before=BEFORE, after="") == ()


def test_every_candidate_of_the_shipped_suite_parses_in_its_file() -> None:
    """One that does not parse would fail for the wrong reason."""
    from rcb_agent.tasks.masking import fill_blank

    made = [(task, one) for task in load_suite("mini").tasks for one in trivial_candidates(task)]
    assert len(made) > 150
    for task, one in made:
        gold, other = (ast.dump(ast.parse(fill_blank(task.problem, code))) for code in (task.answer.gold, one.code))
        assert gold != other
