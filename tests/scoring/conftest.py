"""One grader for all tests, with a cache of its own: a paper's gold code runs once."""

import pytest

from rcb_agent.scoring.split import SplitGrader
from tests.scoring.support import make_grader


@pytest.fixture(scope="session")
def grader(tmp_path_factory: pytest.TempPathFactory) -> SplitGrader:
    return make_grader(tmp_path_factory.mktemp("preflight"))
