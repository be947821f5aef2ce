"""Loads a suite: ``papers.yaml``, one folder per paper, one task per blank.

A paper with a mistake becomes faults that name file, line and key; the other papers stay usable.
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatchcase
from functools import partial
from importlib.metadata import entry_points
from importlib.resources import files
from pathlib import Path
from typing import Any

from rcb_agent.errors import TaskError
from rcb_agent.tasks.base import (
    Answer,
    Fault,
    GradingRules,
    PaperInfo,
    Problem,
    SourceFile,
    Task,
    ValueRules,
    Withheld,
)
from rcb_agent.tasks.data_files import FolderError, refuse_answer
from rcb_agent.tasks.documents import Document, read_document
from rcb_agent.tasks.folders import Folder, module_name, read_folder, split_support
from rcb_agent.tasks.markers import Blank, MarkerError, find_blanks, strip_markers
from rcb_agent.tasks.masking import agent_view, gold_view, prompt_view
from rcb_agent.tasks.origins import PULLED, pulled_root, pulled_version
from rcb_agent.tasks.overlay import Overlay, shipped_overlay

SHIPPED = ("mini",)
NAMED = (*SHIPPED, *PULLED)


_OwnKeys = Callable[[str], tuple[dict[str, Any], list[Fault]]]


@dataclass(frozen=True, slots=True)
class LoadedSuite:
    """A suite read from disk (see tasks.base.Suite)."""

    name: str
    root: Path
    tasks: tuple[Task, ...]
    faults: tuple[Fault, ...]
    digest: str
    version: str = ""
    """What its authors call this state of it: from ``suite.yaml``, or the commit that was pulled."""


def load_suite(name: str) -> LoadedSuite:
    """Load a suite by name or folder path.

    Raises TaskError when there is no such suite or its ``papers.yaml`` cannot be read at all.
    """
    suite = read_suite(name, find_suite(name), shipped_overlay(name) if name in PULLED else None)
    return replace(suite, version=pulled_version(name)) if name in PULLED else suite


def read_suite(name: str, root: Path, overlay: Overlay | None = None) -> LoadedSuite:
    """Read the suite in a folder; with an overlay our own keys come from there, not from ``rcb-agent.yaml``."""
    document = read_document(root / "papers.yaml", "papers.yaml")
    if isinstance(document, Fault):
        raise TaskError(f"suite {name}: {document}")
    if not isinstance(document.data, list) or not document.data:
        raise TaskError(f"suite {name}: papers.yaml:1: must be a list of papers, each with id and annotated_file_paths")
    tasks: list[Task] = []
    faults: list[Fault] = []
    own = partial(_read_own_keys, root) if overlay is None else overlay.keys_of
    for index, entry in enumerate(document.data):
        problems = _entry_faults(document, index, entry)
        if not problems:
            found, problems = _load_paper(root, document, index, own)
            tasks += found
        faults += problems
    version, about = _read_version(root)
    faults += about
    if overlay is not None:
        faults += overlay.strays(entry["id"] for entry in document.data if isinstance(entry, dict) and "id" in entry)
    return LoadedSuite(name, root, tuple(tasks), tuple(faults), _hash([task.digest for task in tasks]), version)


def _read_version(root: Path) -> tuple[str, list[Fault]]:
    path = root / "suite.yaml"
    if not path.exists():
        return "", []
    document = read_document(path, path.name)
    if isinstance(document, Fault):
        return "", [document]
    faults = document.violations("suite.json")
    return ("" if faults else document.data["version"]), faults


def find_suite(name: str) -> Path:
    """Return the folder of a suite: shipped, pulled, a folder's path, or a plug-in's (entry points ``rcb_agent.suites``,
    each a path or a function that returns one). Raises TaskError when it is not there.
    """
    if name in SHIPPED:
        return Path(str(files("rcb_agent.tasks") / "data" / name))
    if name in PULLED:
        return pulled_root(name)
    root = Path(name).expanduser()
    if (root / "papers.yaml").is_file():
        return root.resolve()
    plugins = {entry.name: entry for entry in entry_points(group="rcb_agent.suites")}
    if name in plugins:
        found = plugins[name].load()
        return Path(str(found() if callable(found) else found)).resolve()
    known = ", ".join([*NAMED, *sorted(plugins)])
    raise TaskError(f"no suite {name!r}: give {known}, or a folder that holds papers.yaml")


def select_tasks(suite: LoadedSuite, patterns: Sequence[str]) -> tuple[Task, ...]:
    """Return the tasks whose id matches any fnmatch pattern (``*`` crosses ``/``); all without a pattern.

    Raises TaskError for a pattern that matches nothing: a typing mistake must not shrink a run silently.
    """
    if not patterns:
        return suite.tasks
    for pattern in patterns:
        if not any(fnmatchcase(task.id, pattern) for task in suite.tasks):
            raise TaskError(
                f"no task of suite {suite.name} matches {pattern!r}: see `rcb-agent tasks list --suite {suite.name}`"
            )
    return tuple(task for task in suite.tasks if any(fnmatchcase(task.id, pattern) for pattern in patterns))


def find_task(suite: LoadedSuite, task_id: str) -> Task:
    """Return one task by id. Raises TaskError, naming near ids."""
    for task in suite.tasks:
        if task.id == task_id:
            return task
    from difflib import get_close_matches

    near = get_close_matches(task_id, [task.id for task in suite.tasks], n=1, cutoff=0.4)
    hint = f'; did you mean "{near[0]}"?' if near else ""
    raise TaskError(f"no task {task_id!r} in suite {suite.name}{hint}")


def _entry_faults(document: Document, index: int, entry: Any) -> list[Fault]:
    faults = document.violations("paper.json", entry, (index,))
    if not faults:
        ids = [other.get("id") for other in document.data[:index] if isinstance(other, dict)]
        if entry["id"] in ids:
            faults.append(document.fault((index, "id"), f'a paper with id "{entry["id"]}" stands above: rename one'))
    return faults


def _load_paper(root: Path, document: Document, index: int, own_keys: _OwnKeys) -> tuple[list[Task], list[Fault]]:
    entry = document.data[index]
    paper_id = entry["id"]
    folder_path = root / paper_id
    if not folder_path.is_dir() or folder_path.is_symlink():
        return [], [document.fault((index, "id"), f"there is no folder {paper_id}/ beside papers.yaml")]
    own, faults = own_keys(paper_id)
    try:
        folder = read_folder(
            folder_path,
            _paths(entry["annotated_file_paths"]),
            _paths(entry.get("context_file_paths")),
            own.get("data", {}) if not faults else {},
            own.get("grading", {}).get("by_value", ()) if not faults else (),
        )
    except FolderError as error:
        return [], [*faults, Fault(f"{paper_id}/{error.path}", error.line, "", str(error))]
    blanks, marker_faults = _find_all_blanks(paper_id, folder)
    faults += marker_faults
    if faults:
        return [], faults
    builder = _PaperBuilder(paper_id, folder, entry, own)
    try:
        return [builder.build(file, blank) for file, blank in blanks], []
    except FolderError as error:
        return [], [Fault(f"{paper_id}/{error.path}", error.line, "", str(error))]


def _paths(value: str | list[str] | None) -> list[str]:
    items = [value] if isinstance(value, str) else value or []
    return [item.strip() for item in items]


def _read_own_keys(root: Path, paper_id: str) -> tuple[dict[str, Any], list[Fault]]:
    path = root / paper_id / "rcb-agent.yaml"
    if not path.exists():
        return {}, []
    document = read_document(path, f"{paper_id}/rcb-agent.yaml")
    if isinstance(document, Fault):
        return {}, [document]
    if document.data is None:
        return {}, []
    faults = document.violations("rcb-agent.json")
    return (document.data if isinstance(document.data, dict) else {}), faults


def _find_all_blanks(paper_id: str, folder: Folder) -> tuple[list[tuple[SourceFile, Blank]], list[Fault]]:
    found: list[tuple[SourceFile, Blank]] = []
    faults: list[Fault] = []
    for file in folder.annotated:
        try:
            blanks = find_blanks(file.text)
        except MarkerError as error:
            faults.append(Fault(f"{paper_id}/{file.path}", error.line, "", str(error)))
            continue
        if not blanks:
            faults.append(Fault(f"{paper_id}/{file.path}", 0, "", "is annotated but holds no blank"))
        taken = {blank.name for _, blank in found}
        faults += [
            Fault(
                f"{paper_id}/{file.path}", b.start + 1, "", f'two blanks of the paper are named "{b.name}": rename one'
            )
            for b in blanks
            if b.name in taken
        ]
        found += [(file, blank) for blank in blanks]
    return found, faults


class _PaperBuilder:
    """Builds the tasks of one paper, whose files are read once."""

    def __init__(self, paper_id: str, folder: Folder, entry: dict[str, Any], own: dict[str, Any]) -> None:
        self.paper_id, self.folder, self.own = paper_id, folder, own
        self.info = _paper_info(entry, own)
        self.context_paths = tuple(_paths(entry.get("context_file_paths")))
        self.rules = _grading_rules(own.get("grading", {}))
        self.hidden_names = self._name_hidden()

    def _name_hidden(self) -> tuple[Withheld, ...]:
        test = self.folder.hidden[0]
        reasons = [Withheld(test.path, "hidden test")]
        reasons += [Withheld(file.path, "imported by the hidden test") for file in self.folder.hidden[1:]]
        data = self.folder.data
        reasons += [Withheld(file.path, "data of the hidden tests") for file in (*data.both, *data.tests)]
        return (*reasons, *(Withheld(path, "not on the allow list") for path in self.folder.others))

    def build(self, file: SourceFile, blank: Blank) -> Task:
        """Return the task of one blank."""
        complete, gold = gold_view(file.text, blank)
        clean = {f.path: SourceFile(f.path, strip_markers(f.text)) for f in self.folder.annotated}
        support = tuple(SourceFile(f.path, strip_markers(f.text)) for f in self.folder.support)
        shown, withheld = split_support(support, gold)
        public = tuple(f for f in shown if f.path in self.own.get("public_tests", ()))
        data = self.folder.data
        refuse_answer((*data.shown, *data.both), gold)
        problem = Problem(
            task_id=f"{self.paper_id}/{blank.name}",
            paper_id=self.paper_id,
            name=blank.name,
            path=file.path,
            loc=blank.loc,
            files=_replaced(clean, file.path, agent_view(file.text, blank)),
            files_support=shown,
            prompt_target=prompt_view(file.text, blank),
            paper=self.folder.paper,
            runtime=self.own.get("runtime", self.paper_id),
            title=self.info.title,
            context_paths=self.context_paths,
            public_tests=public,
            data=data.shown,
        )
        answer = Answer(
            gold=gold,
            files=_replaced(clean, file.path, complete),
            support=support,
            hidden=self.folder.hidden,
            test_path=self.folder.hidden[0].path,
            modules=tuple(module_name(f.path) for f in self.folder.annotated),
            rules=self.rules,
            data=(*data.shown, *data.both),
            hidden_data=data.tests,
        )
        return self._task(problem, answer, blank, withheld)

    def _task(self, problem: Problem, answer: Answer, blank: Blank, withheld: tuple[Withheld, ...]) -> Task:
        parent = f"{self.paper_id}/{blank.parent}" if blank.parent else None
        names = (*self.hidden_names, *withheld)
        digest = _hash([_digestible(problem), _digestible(answer)])
        return Task(problem, answer, self.info, blank.depth, parent, names, digest)


def _replaced(clean: dict[str, SourceFile], path: str, text: str) -> tuple[SourceFile, ...]:
    return tuple(SourceFile(name, text) if name == path else file for name, file in clean.items())


def _paper_info(entry: dict[str, Any], own: dict[str, Any]) -> PaperInfo:
    def text(key: str) -> str:
        return str(entry.get(key) or "").strip()

    return PaperInfo(
        id=entry["id"],
        title=text("title"),
        venue=text("venue"),
        area=str(own.get("area", "")),
        url=text("arxiv_abs"),
        arxiv_date=text("arxiv_date"),
        arxiv_v1_date=text("arxiv_v1_date"),
        first_commit_date=text("first_commit_date"),
        licence=str(own.get("licence", "")),
        verified_by=str(own.get("verified_by", "")),
        flows=str(own.get("grading", {}).get("flows", "")),
    )


def _grading_rules(own: dict[str, Any]) -> GradingRules:
    return GradingRules(
        in_place={label: tuple(indices) for label, indices in own.get("in_place", {}).items()},
        shared=tuple(own.get("shared", ())),
        offers={name: tuple(offered) for name, offered in own.get("offers", {}).items()},
        skip_form=tuple(own.get("skip_form", ())),
        seconds=float(own.get("seconds", GradingRules().seconds)),
        clock=float(own.get("clock", GradingRules().clock)),
        values=_value_rules(own["values"]) if "values" in own else None,
        asserts=own.get("asserts", True),
        plain=dict(own.get("plain", {})),
        by_value=tuple(own.get("by_value", ())),
        weights=dict(own.get("weights", {})),
        trusted=tuple(own.get("trusted", ())),
        prelude=str(own.get("prelude", "")),
        salt=own.get("salt", True),
    )


def _value_rules(own: dict[str, Any]) -> ValueRules:
    usual = ValueRules()
    return ValueRules(
        float(own.get("rtol", usual.rtol)), float(own.get("atol", usual.atol)), tuple(own.get("skip", usual.skip))
    )


def _digestible(value: Problem | Answer) -> dict[str, Any]:
    """Return what a digest is made of: data by its hash, and nothing where a paper has none, as before there was any."""
    fields = asdict(value)
    for name in ("data", "hidden_data"):
        files = fields.pop(name, ())
        if files:
            fields[name] = [[file["path"], hashlib.sha256(file["data"]).hexdigest()] for file in files]
    return fields


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, ensure_ascii=True).encode()).hexdigest()
