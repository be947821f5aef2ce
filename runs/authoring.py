"""Carries out ``tasks new``: a paper folder to fill in, and its entry in ``papers.yaml``. Nothing that is there is touched."""

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rcb_agent.errors import TaskError, UsageError
from rcb_agent.runs.scaffold import Draft, paper_entry, skeleton_files
from rcb_agent.runs.screen import visible
from rcb_agent.tasks.base import Fault
from rcb_agent.tasks.documents import Document, read_document
from rcb_agent.tasks.folders import TEST_NAME
from rcb_agent.tasks.markers import MarkerError, find_blanks
from rcb_agent.tasks.marking import Span, insert_markers

_BLANK = re.compile(r"(?P<file>.+?):(?P<first>\d+)-(?P<last>\d+):(?P<name>.+)", re.DOTALL)
_SUITE = '# A new version with every change of a task: results of two versions are not compared.\nversion: "0.1"\n'


def make_paper(options: Mapping[str, Any]) -> None:
    """Write the paper and say what is left to do. Raises UsageError or TaskError before anything is written."""
    suite = Path(options["suite"])
    draft = Draft(
        options["paper"],
        options["title"] or options["paper"],
        options["runtime"],
        read_code(options["sources"], options["blanks"]),
    )
    papers = extend_papers(suite / "papers.yaml", draft)
    folder = suite / draft.paper_id
    if os.path.lexists(folder):
        raise UsageError(f"{folder} is there already: nothing is overwritten; choose another id")
    files = skeleton_files(draft)
    write_paper(suite, draft.paper_id, files)
    if not (suite / "suite.yaml").exists():
        (suite / "suite.yaml").write_text(_SUITE, "utf-8")
    replace_text(suite / "papers.yaml", papers)
    sys.stdout.write(visible(_say_next(folder, draft)))


def read_code(sources: Sequence[str], blanks: Sequence[str]) -> dict[str, str]:
    """Return the code to be annotated, markers in place, by its path in the paper's folder."""
    found = {path: (source, _read(source)) for path, source in paths_within(sources).items()}
    wanted = [_read_blank(text, {path: source for path, (source, _) in found.items()}) for text in blanks]
    marked: dict[str, str] = {}
    for path, (source, text) in found.items():
        try:
            marked[path] = insert_markers(text, [span for where, span in wanted if where == path])
        except MarkerError as error:
            raise UsageError(f"{source}:{error.line}: {error}") from None
    return marked


def paths_within(sources: Sequence[str]) -> dict[str, str]:
    """Map the path that each file gets in the folder, relative to what all of them lie in, to where it is now."""
    top = Path(os.path.commonpath([Path(source).absolute().parent for source in sources]))
    found = {Path(source).absolute().relative_to(top).as_posix(): source for source in sources}
    for path, source in found.items():
        if Path(path).suffix != ".py" or Path(path).name == TEST_NAME or path.endswith("_ref.py"):
            raise UsageError(
                f"--from {source}: blanks are in Python files, and tests and references are not among them"
            )
    return found


def _read(source: str) -> str:
    try:
        return Path(source).read_bytes().decode("utf-8")
    except OSError as error:
        raise UsageError(f"--from {source}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"--from {source}: is not UTF-8") from None


def _read_blank(text: str, sources: Mapping[str, str]) -> tuple[str, Span]:
    match = _BLANK.fullmatch(text)
    if match is None:
        raise UsageError(f"--blank {text!r}: say FILE:START-END:NAME, for instance 'wrap.py:12-18:cost of a line'")
    where = [path for path, source in sources.items() if match["file"] in (path, source)]
    if not where:
        raise UsageError(f"--blank {text!r}: {match['file']} is none of the files given by --from")
    return where[0], Span(match["name"], int(match["first"]), int(match["last"]))


def extend_papers(path: Path, draft: Draft) -> str:
    """Return the text of ``papers.yaml`` with the paper's entry at its end; what stands there stays as it is."""
    old = ""
    if path.exists():
        document = read_document(path, str(path))
        if isinstance(document, Fault):
            raise TaskError(str(document))
        if not isinstance(document.data, list | None):
            raise TaskError(f"{path}:1: must be a list of papers, each with id and annotated_file_paths")
        if any(isinstance(entry, dict) and entry.get("id") == draft.paper_id for entry in document.data or ()):
            raise UsageError(f"{path} has a paper {draft.paper_id} already: nothing is overwritten; choose another id")
        old = path.read_text("utf-8").rstrip("\n")
    text = (f"{old}\n\n" if old else "") + paper_entry(draft)
    new = Document(path, str(path), text)
    if faults := new.violations("paper.json", new.data[-1], (len(new.data) - 1,)):
        raise UsageError(f"PAPER {draft.paper_id!r}: {faults[0].message}")
    return text


def write_paper(suite: Path, paper_id: str, files: Mapping[str, str]) -> None:
    """Write the folder whole or not at all."""
    suite.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(dir=suite, prefix=f".{paper_id}."))
    try:
        for path, text in files.items():
            (draft / path).parent.mkdir(parents=True, exist_ok=True)
            (draft / path).write_bytes(text.encode("utf-8"))
        draft.chmod(0o755)
        draft.rename(suite / paper_id)
    except OSError as error:
        shutil.rmtree(draft, ignore_errors=True)
        raise UsageError(f"{suite / paper_id}: cannot be written: {error.strerror}") from None


def replace_text(path: Path, text: str) -> None:
    """Replace a file in one step."""
    draft = path.with_name(f".{path.name}.part")
    draft.write_text(text, "utf-8")
    draft.replace(path)


def _say_next(folder: Path, draft: Draft) -> str:
    lines = [f"{folder}: {', '.join(_annotated(draft.annotated))}"]
    if not all(find_blanks(text) for text in draft.annotated.values()):
        lines.append(
            'put markers around each blank: # <paper2code name="..."> before it, # </paper2code name="..."> after it'
        )
    lines += [
        f"write {folder / 'paper2code_paper.md'}: everything that the tests ask for, no line of the code",
        f"write {folder / draft.reference}: the same in another way; hidden",
        f"write {folder / TEST_NAME}: unittest classes that compare the two; hidden",
        f"fill in {folder / 'rcb-agent.yaml'} and the entry in {folder.parent / 'papers.yaml'}",
        f"rcb-agent tasks check {folder}",
    ]
    return "\n".join([lines[0], *(f"  {number}. {line}" for number, line in enumerate(lines[1:], 1))]) + "\n"


def _annotated(annotated: Mapping[str, str]) -> Iterable[str]:
    for path, text in annotated.items():
        count = len(find_blanks(text))
        yield f"{path} ({count} blank{'' if count == 1 else 's'})"
