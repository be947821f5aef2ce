"""Sorts the files of one paper folder: what an agent may see, what grading needs, what must stay hidden.

The workspace is built from an allow list: annotated files, declared context, and local modules that these
import. Whatever else lies in the folder is withheld, by name and with a reason.
"""

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from rcb_agent.tasks.base import SourceFile, Withheld
from rcb_agent.tasks.data_files import FolderError, PaperData, is_data, read_bytes, sort_data
from rcb_agent.tasks.leaks import compare, telling_lines
from rcb_agent.tasks.syntax import parse_quietly

TEST_NAME = "paper2code_test.py"
PAPER_NAMES = ("paper2code_paper.md", "paper2code_paper.tex")
_NOT_CONTENT = {"__pycache__", ".git", ".pytest_cache", ".mypy_cache"}
_OURS = {"rcb-agent.yaml", "paper2code.yaml"}


@dataclass(frozen=True, slots=True)
class Folder:
    """The files of a paper by role; paths are relative and POSIX, every tuple is sorted as declared."""

    annotated: tuple[SourceFile, ...]
    support: tuple[SourceFile, ...]
    hidden: tuple[SourceFile, ...]
    paper: SourceFile
    others: tuple[str, ...]
    data: PaperData


def read_folder(
    root: Path,
    annotated: Iterable[str],
    context: Iterable[str],
    declared: Mapping[str, str],
    by_value: Iterable[str] = (),
) -> Folder:
    """Read and sort the files of a paper folder; ``declared`` says who reads a data file, ``by_value`` names classes whose
    objects the tests give to the candidate, which needs their files. Raises FolderError."""
    names = _list_files(root)
    named = tuple(context)
    _refuse_hidden(named)
    data = sort_data(root, declared, [path for path in named if is_data(root, path)])
    context = [path for path in named if path not in data.paths]
    annotated_files = tuple(read_source(root, path) for path in annotated)
    context_files = tuple(read_source(root, path) for path in context)
    test = read_source(root, TEST_NAME)
    sources = {name: file for name in names if (file := _read_module(root, name)) is not None}
    own = {file.path for file in annotated_files}
    seen = {file.path for file in context_files}
    carried = [sources[path] for name in by_value for path in _candidates(PurePosixPath(), name) if path in sources]
    _refuse_hidden(file.path for file in carried)
    needed = imports_closure((*annotated_files, *context_files, *carried), sources) | {file.path for file in carried}
    needed -= own | {TEST_NAME}
    support = context_files + tuple(sources[name] for name in sorted(needed - seen))
    shared = own | {file.path for file in support}
    hidden = tuple(sources[name] for name in sorted(imports_closure((test,), sources) - shared))
    paper = _read_paper(root)
    used = shared | {file.path for file in hidden} | {test.path, paper.path} | data.paths
    others = tuple(name for name in names if name not in used and PurePosixPath(name).name not in _OURS)
    return Folder(annotated_files, support, (test, *(f for f in hidden if f.path != test.path)), paper, others, data)


def _refuse_hidden(shown: Iterable[str]) -> None:
    """Context, and what holds a class whose objects go by value, is shown to agents: a test or reference would be the answer."""
    for path in shown:
        if PurePosixPath(path).name == TEST_NAME or path.endswith("_ref.py"):
            raise FolderError(
                path, "is a hidden test or reference: it can be no context file, nor hold a class of by_value"
            )


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
    data = read_bytes(root, path)
    try:
        return SourceFile(PurePosixPath(path).as_posix(), data.decode("utf-8"))
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise FolderError(path, "is not UTF-8: save it as UTF-8", line) from None


def split_support(files: tuple[SourceFile, ...], gold: str) -> tuple[tuple[SourceFile, ...], tuple[Withheld, ...]]:
    """Part support files into those that may be shown and those withheld because they hold the answer (tasks.leaks)."""
    wanted = telling_lines(gold)
    shown: list[SourceFile] = []
    withheld: list[Withheld] = []
    for file in files:
        overlap = compare(wanted, file.text)
        if overlap.is_copy:
            withheld.append(Withheld(file.path, str(overlap)))
        else:
            shown.append(file)
    return tuple(shown), tuple(withheld)


def imported_modules(files: Iterable[SourceFile]) -> frozenset[str]:
    """Return the top-level names that files import absolutely, without running anything; what does not parse imports nothing."""
    found: set[str] = set()
    for file in files:
        try:
            tree = parse_quietly(file.text)
        except SyntaxError:
            continue
        found |= {
            dotted.split(".")[0] for node in ast.walk(tree) for dotted, level in _imported_names(node) if not level
        }
    return frozenset(found)


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
        if isinstance(node, ast.ImportFrom) and node.level:  # the package it is relative to is imported first
            found |= {str(_climb(here, node.level) / "__init__.py")} & sources.keys()
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
