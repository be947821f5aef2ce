"""Whether a model can have read a paper: dates only, so this is a risk, never a proof.

Two rules. ``first-commit`` (the benchmark's own) compares the cutoff with the first commit of the paper's code,
``arxiv`` with the first version of the text. A paper is ``safe`` when it came after every day that the cutoff may mean,
``unsafe`` when it was there on all of them, and ``unknown`` in between or without a date. A first commit can be an upload of
old code, and a text may have stood elsewhere: hence both rules.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from rcb_agent.tasks.base import PaperInfo
from rcb_agent.tasks.cutoffs import Cutoff, read_cutoff
from rcb_agent.tasks.published import PublishedPaper

SAFE, UNSAFE, UNKNOWN = "safe", "unsafe", "unknown"
FIRST_COMMIT, ARXIV = "first-commit", "arxiv"
RULES = (FIRST_COMMIT, ARXIV)


@dataclass(frozen=True, slots=True)
class PaperDates:
    """When a paper became public: ISO dates, empty when unknown."""

    first_commit: str = ""
    arxiv_v1: str = ""

    def of(self, rule: str) -> str:
        """Return the date that a rule looks at."""
        return self.first_commit if rule == FIRST_COMMIT else self.arxiv_v1


def dates_of(paper: PaperInfo | PublishedPaper) -> PaperDates:
    """Return the dates of a paper of a suite, or of a published one."""
    if isinstance(paper, PublishedPaper):
        return PaperDates(paper.first_commit, paper.arxiv_v1)
    return PaperDates(paper.first_commit_date, paper.arxiv_v1_date)


def classify(dates: PaperDates, cutoff: Cutoff | None, rule: str = FIRST_COMMIT) -> str:
    """Return ``safe``, ``unsafe`` or ``unknown`` for a paper and a cutoff."""
    try:
        public = read_cutoff(dates.of(rule))
    except ValueError:
        return UNKNOWN
    if cutoff is None:
        return UNKNOWN
    if public.first > cutoff.last:
        return SAFE
    return UNSAFE if public.last <= cutoff.first else UNKNOWN


def safe_papers(papers: Iterable[PublishedPaper], cutoff: Cutoff | None, rule: str = FIRST_COMMIT) -> frozenset[str]:
    """Return the ids of the papers that a model with this cutoff cannot have read."""
    return frozenset(paper.id for paper in papers if classify(dates_of(paper), cutoff, rule) == SAFE)
