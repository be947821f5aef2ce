"""Sorts the files of one paper folder: what an agent may see, what grading needs, what must stay hidden.

The workspace is built from an allow list: annotated files, declared context, and local modules that these
import. Whatever else lies in the folder is withheld, by name and with a reason.
"""

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from rcb_agent.tasks.base import SourceFile, Withheld
from rcb_agent.tasks.syntax import parse_quietly

TEST_NAME = "paper2code_test.py"
PAPER_NAMES = ("paper2code_paper.md", "paper2code_paper.tex")
_NOT_CONTENT = {"__pycache__", ".git", ".pytest_cache", ".mypy_cache"}
_OURS = {"rcb-agent.yaml", "paper2code.yaml"}
LEAST_GOLD_LINE = 8


@dataclass(frozen=True, slots=True)
class Folder:
    """The files of a paper by role; paths are relative and POSIX, every tuple is sorted as declared."""

    annotated: tuple[SourceFile, ...]
    support: tuple[SourceFile, ...]
    hidden: tuple[SourceFile, ...]
    paper: SourceFile
    others: tuple[str, ...]


class FolderError(ValueError):
    """A file of the folder cannot be used; ``path`` is relative to the folder."""

    def __init__(self, path: str, message: str, line: int = 0) -> None:
        super().__init__(message)
        self.path, self.line = path, line


def read_folder(root: Path, annotated: Iterable[str], context: Iterable[str], public: Iterable[str] = ()) -> Folder:
    """Read and sort the files of a paper folder; ``public`` are tests that agents may see. Raises FolderError."""
    names = _list_files(root)
    context = tuple(context)
    _refuse_hidden(context)
    annotated_files = tuple(read_source(root, path) for path in annotated)
    context_files = tuple(read_source(root, path) for path in (*context, *public))
    test = read_source(root, TEST_NAME)
    sources = {name: file for name in names if (file := _read_module(root, name)) is not None}
    own = {file.path for file in annotated_files}
    seen = {file.path for file in context_files}
    needed = imports_closure((*annotated_files, *context_files), sources) - own - {TEST_NAME}
    support = context_files + tuple(sources[name] for name in sorted(needed - seen))
    shared = own | {file.path for file in support}
    hidden = tuple(sources[name] for name in sorted(imports_closure((test,), sources) - shared))
    paper = _read_paper(root)
    used = shared | {file.path for file in hidden} | {test.path, paper.path}
    others = tuple(name for name in names if name not in used and PurePosixPath(name).name not in _OURS)
    return Folder(annotated_files, support, (test, *(f for f in hidden if f.path != test.path)), paper, others)


def _refuse_hidden(context: Iterable[str]) -> None:
    """A context file is shown to agents: the hidden test or a reference there would be the answer."""
    for path in context:
        if PurePosixPath(path).name == TEST_NAME or path.endswith("_ref.py"):
            raise FolderError(path, "is a hidden test or reference and cannot be a context file")


def _read_module(root: Path, name: str) -> SourceFile | None:
    """Read a Python file that may turn out to be imported; one that is not UTF-8 is left alone until it is named."""
    if not name.endswith(".py"):
        return None
    try:
        return read_source(root, name)
    except FolderError:
        return None


def read_source(root: Path, path: str) -> SourceFile:
    """Read one text file of the folder, byte-faithfully. Raises FolderError."""
    pure = PurePosixPath(path)
    if pure.is_absolute() or ".." in pure.parts:
        raise FolderError(path, "leads out of the paper's folder")
    full = root / pure
    if full.is_symlink() or not full.is_file():
        raise FolderError(path, "is not there as a regular file")
    data = full.read_bytes()
    try:
        return SourceFile(pure.as_posix(), data.decode("utf-8"))
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise FolderError(path, "is not UTF-8: save it as UTF-8", line) from None


def significant_lines(gold: str) -> frozenset[str]:
    """Return the lines of a blank that would give it away: stripped, 8 or more characters, no comments."""
    stripped = (line.strip() for line in gold.split("\n"))
    return frozenset(line for line in stripped if len(line) >= LEAST_GOLD_LINE and not line.startswith("#"))


def split_support(files: tuple[SourceFile, ...], gold: str) -> tuple[tuple[SourceFile, ...], tuple[Withheld, ...]]:
    """Part support files into those that may be shown and those withheld because they hold the answer.

    A file is withheld when at least half of the blank's significant lines stand in it (upstream's reference
    copies hold all of them; a shared import line or two does not make a leak).
    """
    wanted = significant_lines(gold)
    shown: list[SourceFile] = []
    withheld: list[Withheld] = []
    for file in files:
        held = len(wanted & {line.strip() for line in file.text.split("\n")})
        if wanted and held * 2 >= len(wanted):
            withheld.append(Withheld(file.path, f"holds {held} of the blank's {len(wanted)} lines"))
        else:
            shown.append(file)
    return tuple(shown), tuple(withheld)


def module_name(path: str) -> str:
    """``src/MLE.py`` -> ``src.MLE``: the name under which tests import an annotated file."""
    parts = PurePosixPath(path).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _list_files(root: Path) -> tuple[str, ...]:
    found = []
    for path in sorted(root.rglob("*")):
        relative = path.relative_to(root)
        if _NOT_CONTENT & set(relative.parts) or path.is_symlink() or not path.is_file():
            continue
        found.append(relative.as_posix())
    return tuple(found)


def _read_paper(root: Path) -> SourceFile:
    for name in PAPER_NAMES:
        full = root / name
        if full.is_file() and not full.is_symlink():
            return SourceFile(name, full.read_bytes().decode("utf-8", "replace"))
    raise FolderError(PAPER_NAMES[0], f"is missing: a paper needs its text as {' or '.join(PAPER_NAMES)}")


def imports_closure(start: Iterable[SourceFile], sources: Mapping[str, SourceFile]) -> set[str]:
    """Return the paths of local files that ``start`` imports, directly or not, without running anything."""
    todo, done = list(start), set[str]()
    while todo:
        file = todo.pop()
        for path in _local_imports(file, sources):
            if path not in done:
                done.add(path)
                todo.append(sources[path])
    return done


def _local_imports(file: SourceFile, sources: Mapping[str, SourceFile]) -> set[str]:
    try:
        tree = parse_quietly(file.text)
    except SyntaxError:
        return set()
    here = PurePosixPath(file.path).parent
    found: set[str] = set()
    for node in ast.walk(tree):
        for dotted, level in _imported_names(node):
            bases = [_climb(here, level)] if level else [PurePosixPath(), here]
            found |= {path for base in bases for path in _candidates(base, dotted) if path in sources}
    return found - {file.path}


def _imported_names(node: ast.AST) -> list[tuple[str, int]]:
    if isinstance(node, ast.Import):
        return [(alias.name, 0) for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        base = node.module or ""
        names = [base] if base else []
        return [(name, node.level) for name in [*names, *(f"{base}.{a.name}".lstrip(".") for a in node.names)]]
    return []


def _climb(here: PurePosixPath, level: int) -> PurePosixPath:
    for _ in range(level - 1):
        here = here.parent
    return here


def _candidates(base: PurePosixPath, dotted: str) -> list[str]:
    parts = dotted.split(".")
    chains = [base.joinpath(*parts[:count]) for count in range(1, len(parts) + 1)]
    return [str(path) for chain in chains for path in (chain.with_name(chain.name + ".py"), chain / "__init__.py")]
