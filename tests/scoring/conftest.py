"""One grader for all tests, with one cache for all their processes: a paper's gold code runs once."""

import os

import pytest

from rcb_agent.scoring.split import SplitGrader
from tests.scoring.support import make_grader


@pytest.fixture(scope="session")
def grader(tmp_path_factory: pytest.TempPathFactory) -> SplitGrader:
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base  # each worker has a folder of its own
    return make_grader(shared / "preflight-of-all")
