"""Data files of a paper folder: handed on byte for byte, never read as text, and never a way for code or an answer.

``data`` in ``rcb-agent.yaml`` maps a path to who reads it at grading: ``both`` sides or the ``tests`` alone. An agent sees a
data file only where the paper declares it as context.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from rcb_agent.tasks.base import DataFile
from rcb_agent.tasks.leaks import compare_bytes, telling_lines

BOTH, TESTS = "both", "tests"
MOST_BYTES = 16 << 20
CODE = (".py", ".pyc", ".pyi", ".so", ".ipynb")


class FolderError(ValueError):
    """A file of the folder cannot be used; ``path`` is relative to the folder."""

    def __init__(self, path: str, message: str, line: int = 0) -> None:
        super().__init__(message)
        self.path, self.line = path, line


@dataclass(frozen=True, slots=True)
class PaperData:
    """The data files of a paper: ``shown`` to agents and both sides, read by ``both`` sides, by the ``tests`` alone."""

    shown: tuple[DataFile, ...] = ()
    both: tuple[DataFile, ...] = ()
    tests: tuple[DataFile, ...] = ()

    @property
    def paths(self) -> frozenset[str]:
        """All of their paths."""
        return frozenset(file.path for file in (*self.shown, *self.both, *self.tests))


def read_bytes(root: Path, path: str) -> bytes:
    """Read a regular file of the folder. Raises FolderError."""
    pure = PurePosixPath(path)
    if pure.is_absolute() or ".." in pure.parts:
        raise FolderError(path, "leads out of the paper's folder")
    full = root / pure
    if full.is_symlink() or not full.is_file():
        raise FolderError(path, "is not there as a regular file")
    return full.read_bytes()


def is_data(root: Path, path: str) -> bool:
    """Say whether a file is no text, as git does: by a NUL byte in it. Raises FolderError."""
    return PurePosixPath(path).suffix not in CODE and b"\0" in read_bytes(root, path)


def read_data(root: Path, path: str) -> DataFile:
    """Read one data file. Raises FolderError."""
    if PurePosixPath(path).suffix in CODE or PurePosixPath(path).name.startswith("paper2code_"):
        raise FolderError(path, "is code or the paper's text and cannot be declared as data")
    data = read_bytes(root, path)
    if len(data) > MOST_BYTES:
        raise FolderError(path, f"has {len(data):,} bytes; a data file may have {MOST_BYTES:,}")
    return DataFile(PurePosixPath(path).as_posix(), data)


def sort_data(root: Path, declared: Mapping[str, str], context: Iterable[str]) -> PaperData:
    """Read the data files of a paper: those ``declared``, and those of its ``context`` that are no text. Raises FolderError."""
    shown = tuple(read_data(root, path) for path in context)
    for file in shown:
        if declared.get(file.path) == TESTS:
            raise FolderError(file.path, "is a context file, which agents see, and cannot be data of the tests alone")
    seen = {file.path for file in shown}
    hidden = [(read_data(root, path), reader) for path, reader in declared.items() if path not in seen]
    both = tuple(file for file, reader in hidden if reader == BOTH)
    return PaperData(shown, both, tuple(file for file, reader in hidden if reader == TESTS))


def refuse_answer(files: Iterable[DataFile], gold: str) -> None:
    """Raise FolderError for a data file with half of a blank's lines: the candidate's process could run what it finds there.

    Only lines as they are written can be found; what is compressed is the author's care.
    """
    wanted = telling_lines(gold)
    for file in files:
        overlap = compare_bytes(wanted, file.data)
        if overlap.is_copy:
            raise FolderError(
                file.path,
                f"holds {overlap.held} of the {overlap.of} lines of a blank: data must not hold the answer",
            )
