"""Guards: a snapshot that names bytes which nobody holds, because a file was recognised instead of fetched."""

import hashlib
from collections.abc import Callable

import pytest

from rcb_agent.environments.supervised import SupervisedSandbox
from rcb_agent.environments.workspace import LiveWorkspace

pytestmark = pytest.mark.sandbox
GIVEN = {"model.py": b"x = 1\n", "lib/other.py": b"y = 1\n"}


class Keeper:
    """Holds bytes the way a trial does: those of the last snapshot, and no others."""

    def __init__(self, box: SupervisedSandbox) -> None:
        self.blobs: dict[str, bytes] = {}
        self.workspace = LiveWorkspace(box, GIVEN, ("model.py",), self._hold)

    def _hold(self, digest: str, data: bytes) -> None:
        self.blobs[digest] = data

    def contents(self) -> dict[str, bytes]:
        """Take a snapshot and look up everything it names."""
        files = self.workspace.snapshot().files
        self.blobs = {digest: data for digest, data in self.blobs.items() if digest in files.values()}
        assert all(hashlib.sha256(data).hexdigest() == digest for digest, data in self.blobs.items())
        return {path: self.blobs[digest] for path, digest in files.items()}


@pytest.fixture
def keeper(open_box: Callable[..., SupervisedSandbox]) -> Keeper:
    return Keeper(open_box(dict(GIVEN)))


def test_an_untouched_file_has_its_bytes(keeper: Keeper) -> None:
    """An annotated file that nobody has touched is kept at the first snapshot as well."""
    assert keeper.contents() == keeper.contents() == {"model.py": GIVEN["model.py"]}


def test_a_version_that_comes_back_is_handed_over_again(keeper: Keeper) -> None:
    """A, B, A: whoever held A has let go of it at B; so has one who went back to what was given."""
    box = keeper.workspace.sandbox
    for data in (b"x = 2\n", b"x = 3\n", b"x = 2\n", GIVEN["model.py"], b"x = 3\n", b"x = 3\n"):
        box.write("model.py", data)
        assert keeper.contents() == {"model.py": data}


def test_equal_size_and_swapped_files_are_told_apart(keeper: Keeper) -> None:
    """Another content of equal size is fetched; two files that change places are each what they are now."""
    box = keeper.workspace.sandbox
    box.write("notes.txt", b"x = 9\n")
    assert keeper.contents() == {"model.py": b"x = 1\n", "notes.txt": b"x = 9\n"}
    box.run(["sh", "-c", "mv model.py t && mv notes.txt model.py && mv t notes.txt"], timeout=10)
    assert keeper.contents() == {"model.py": b"x = 9\n", "notes.txt": b"x = 1\n"}
    box.run(["sh", "-c", "ln -sf notes.txt model.py"], timeout=10)
    snapshot = keeper.workspace.snapshot()
    assert "model.py" not in snapshot.files
    assert "model.py" in snapshot.listed
