"""Guards: a paper called safe for a model that may have read it."""

import pytest

from rcb_agent.errors import UsageError
from rcb_agent.tasks.contamination import ARXIV, FIRST_COMMIT, PaperDates, classify
from rcb_agent.tasks.cutoffs import find_cutoff, load_cutoffs, plain_name, read_cutoff, resolve_cutoff
from rcb_agent.tasks.published import load_published


@pytest.mark.parametrize(
    ("public", "cutoff", "wanted"),
    [
        ("2024-12-01", "2024-11", "safe"),
        ("2024-11-13", "2024-11", "unknown"),
        ("2024-11-30", "2024-11", "unknown"),
        ("2024-11-01", "2024-11", "unsafe"),
        ("2024-10-31", "2024-11", "unsafe"),
        ("2024-11-17", "2024-11-17", "unsafe"),
        ("2024-11-18", "2024-11-17", "safe"),
        ("2024-11", "2024-11-17", "unknown"),
        ("2024-11", "2024-10", "safe"),
        ("", "2024-11", "unknown"),
        ("soon", "2024-11", "unknown"),
        ("2024-7", "2024-11", "unknown"),
    ],
)
def test_a_month_is_any_of_its_days(public: str, cutoff: str, wanted: str) -> None:
    """What holds only on some days of the cutoff's month is unknown, and so is what has no date."""
    assert classify(PaperDates(first_commit=public), read_cutoff(cutoff)) == wanted


def test_the_rules_look_at_different_dates() -> None:
    """Code that came long after the text is safe by one rule and unsafe by the other."""
    dates = PaperDates(first_commit="2025-04-07", arxiv_v1="2024-06-20")
    cutoff = read_cutoff("2025-01")
    assert (classify(dates, cutoff, FIRST_COMMIT), classify(dates, cutoff, ARXIV)) == ("safe", "unsafe")


def test_no_cutoff_is_no_promise() -> None:
    """A model whose cutoff nobody knows has no safe paper."""
    assert classify(PaperDates("2025-04-07", "2025-04-07"), None) == "unknown"


@pytest.mark.parametrize("name", ["gpt-4.1", "openai/gpt-4.1", "GPT_4_1", "openrouter/openai/gpt-4.1-2025-04-14"])
def test_a_model_is_found_under_its_names(name: str) -> None:
    """The published id and the provider's name, with or without the provider before it."""
    known = find_cutoff(name)
    assert known is not None
    assert (known.model, str(known.cutoff), known.stated) == ("GPT_4_1", "2023-12", "2025-05-12")
    assert "knowledge_cutoff_date" in known.source


def test_a_name_means_one_model() -> None:
    """No name stands for two models, read without case and punctuation either."""
    names = [
        name for entry in load_cutoffs() for name in {plain_name(n) for n in (entry.model, entry.shown, *entry.names)}
    ]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("Claude-3.7-Sonnet", "CLAUDE_3_7_SONNET_2025_02_19"),
        ("claude 3.7 sonnet", "CLAUDE_3_7_SONNET_2025_02_19"),
        ("O3 (High)", "O3_HIGH"),
        ("o3.high", "O3_HIGH"),
        ("gpt.4.1", "GPT_4_1"),
    ],
)
def test_a_model_is_found_as_the_leaderboard_writes_it(name: str, model: str) -> None:
    """And as somebody types that from memory."""
    known = find_cutoff(name)
    assert known is not None
    assert known.model == model


def test_every_published_model_is_found_as_it_is_shown() -> None:
    """By the name on the leaderboard and by its id."""
    for model in load_published().models:
        assert [resolve_cutoff(name) for name in (model.pretty_name, model.id)] == [model.cutoff] * 2


def test_a_word_that_nearly_fits_is_answered_with_what_is_near() -> None:
    """A model of another version is no match, and one that is none of these is near none."""
    with pytest.raises(UsageError, match=r"near it: .*Claude-3\.7-Sonnet"):
        resolve_cutoff("claude-3.8-sonnet")
    with pytest.raises(UsageError, match="known here: give"):
        resolve_cutoff("zzzz")


@pytest.mark.parametrize("text", ["2025-13", "2025-02-30", "2025-00"])
def test_a_date_that_is_none_is_called_so(text: str) -> None:
    """It is not taken for the name of a model."""
    with pytest.raises(UsageError, match="there is no such date"):
        resolve_cutoff(text)


@pytest.mark.parametrize("text", ["gpt-4.10", "", "2025-13", "2025-02-30", "25-01", "2025-1"])
def test_an_unknown_word_is_no_cutoff(text: str) -> None:
    """Neither a model nor a date: said, with what to give instead."""
    with pytest.raises(UsageError, match="give the date"):
        resolve_cutoff(text)
