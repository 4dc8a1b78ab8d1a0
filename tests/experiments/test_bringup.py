"""What a run sets before it builds its network."""

import resource
from collections.abc import Iterator

import pytest

from experiments.bringup import allow_open_files


@pytest.fixture
def few_files() -> Iterator[int]:
    """A limit as low as most systems begin with; gives the most that is allowed."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
    yield before[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_as_many_files_may_be_open_as_the_machine_allows(few_files: int) -> None:
    allow_open_files()
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (few_files, few_files)
