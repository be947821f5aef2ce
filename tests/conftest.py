"""What holds for all tests: those that need a docker engine are skipped only where none answers."""

import pytest

from rcb_agent.environments.engine import disconnect
from tests.engine import skip_without_engine


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip by name of what is missing."""
    skip_without_engine(items)


def pytest_sessionfinish() -> None:
    """Close connections to the engine before somebody counts them."""
    disconnect()
