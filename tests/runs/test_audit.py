"""Guards: a copy of an answer that an agent can see and nobody knows of, and a run over one that could be kept from it."""

import json
import shutil
import venv
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from rcb_agent.environments.base import Runtime
from rcb_agent.environments.package_index import index_folder, index_packages
from rcb_agent.environments.repository import _check_objects, make_repository
from rcb_agent.environments.runtimes import load_runtime, runtime_path
from rcb_agent.errors import EnvironmentFault
from rcb_agent.runs.audit import find_in_git
from rcb_agent.tasks.leaks import telling_lines
from rcb_agent.tasks.suites import load_suite
from tests.runs.command import Done, rcb_agent
from tests.tasks.conftest import FILES, write_files

GOLD = "def f(x):\n  y=x+x # theirs\n  return y\n"
PAPERS = "- id: good\n  annotated_file_paths: [model.py, other.py]\n  context_file_paths: [context.py]\n"
OTHER = '# <paper2code name="else">\nelsewhere = 1\n# </paper2code name="else">\n'


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    changes = {
        "papers.yaml": PAPERS,
        "good/other.py": OTHER + GOLD,
        "good/context.py": GOLD,
        "good/notes/old.py": GOLD,
        "good/rcb-agent.yaml": "runtime: bare\n",
        "good/paper2code_paper.md": f"# Doubling\n\n{GOLD}",
    }
    return write_files(tmp_path / "suite", {**FILES, **changes})


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python without packages."""
    home = tmp_path_factory.mktemp("python")
    venv.EnvBuilder(symlinks=True, with_pip=False).create(home)
    return home


def packages_of(home: Path) -> Path:
    return next(home.glob("lib/python*/site-packages"))


def audit(suite: Path, *words: str | Path, cwd: Path) -> Done:
    return rcb_agent(
        "tasks", "audit", "--suite", suite, "--json", *words, cwd=cwd, env={"RCB_AGENT_CACHE": str(cwd / "c")}
    )


def found_for(done: Done, task: str = "good/double it") -> dict[str, Any]:
    schema = json.loads((files("rcb_agent.runs") / "schema" / "audit.json").read_text())
    Draft202012Validator(schema).validate(done.document)
    return next(one for one in done.document["tasks"] if one["id"] == task)


def test_every_place_is_named_with_what_was_done_about_it(suite: Path, tmp_path: Path, bare: Path) -> None:
    """Withheld: context and strangers; visible: the other annotated file and the paper, by the paper's design."""
    done = audit(suite, "--python", bare / "bin" / "python", cwd=tmp_path)
    assert done.code == 0, done.err
    task = found_for(done)
    assert {(one["path"], one["reason"]) for one in task["withheld"]} == {
        ("context.py", "holds 2 of the blank's 2 lines"),
        ("notes/old.py", "not on the allow list"),
    }
    assert {(one["path"], one["kind"], one["line"], one["whole"]) for one in task["visible"]} == {
        ("other.py", "visible_annotated_file", 3, True),
        ("paper2code_paper.md", "visible_paper", 4, True),
    }
    assert done.document["runtimes"][0]["searched"]


def test_a_repeat_in_the_blanks_own_file_is_flagged(suite: Path, tmp_path: Path) -> None:
    """That is how some upstream papers are: said, never a reason to refuse."""
    with (suite / "good" / "model.py").open("a") as file:
        file.write(GOLD)
    kinds = {one["path"]: one["kind"] for one in found_for(audit(suite, cwd=tmp_path))["visible"]}
    assert kinds["model.py"] == "visible_same_file"


def test_packages_that_are_not_there_are_said(suite: Path, tmp_path: Path) -> None:
    """Not searched is not the same as nothing found."""
    done = audit(suite, cwd=tmp_path)
    assert "packages not searched: " in found_for(done)["unsearched"]
    assert not done.document["runtimes"][0]["searched"]
    table = rcb_agent("tasks", "audit", "--suite", suite, cwd=tmp_path)
    assert "runtime bare: packages not searched" in table.err
    assert "3 whose packages were not searched" in " ".join(table.out.split())


def test_a_python_that_does_not_run_is_refused(suite: Path, tmp_path: Path) -> None:
    """Somebody who names one wants its packages searched: a table without them, and exit 0, would hide the slip."""
    done = audit(suite, "--python", tmp_path / "nowhere", cwd=tmp_path)
    assert (done.code, done.out) == (4, "")
    assert f"{tmp_path / 'nowhere'} does not run as a Python" in done.err


@pytest.mark.sandbox
def test_a_run_over_a_copy_that_could_be_withheld_is_refused(suite: Path, tmp_path: Path) -> None:
    """A package that nothing of the paper imports holds the answer: refused in one line, by name; allowed, it stands in the record."""
    home = tmp_path / "python"
    venv.EnvBuilder(symlinks=True, with_pip=False).create(home)
    words: list[str | Path] = [
        "run",
        "--suite",
        suite,
        "--agent",
        "null",
        "--python",
        home / "bin" / "python",
        "--out",
        "r",
        "--json",
    ]
    environment = {"RCB_AGENT_CACHE": str(tmp_path / "c")}
    clean = rcb_agent(*words, cwd=tmp_path, env=environment)
    assert clean.code == 0, clean.err
    shutil.rmtree(tmp_path / "r")
    (packages_of(home) / "cheatsheet").mkdir()
    (packages_of(home) / "cheatsheet" / "doubling.py").write_text(GOLD)
    done = rcb_agent(*words, cwd=tmp_path, env=environment)
    assert done.code == 3
    assert done.err.strip().splitlines()[-1] == (
        "rcb-agent: error: good/double it: the answer can be copied from cheatsheet/doubling.py (packages; 2 of its 2 lines; "
        "no distribution: nothing of the paper needs it): take the copy away, or run with --allow-leaks, which stands in the record"
    )
    assert not (tmp_path / "r").exists()
    assert audit(suite, "--python", home / "bin" / "python", cwd=tmp_path).code == 3
    allowed = rcb_agent(*words, "--allow-leaks", cwd=tmp_path, env=environment)
    assert allowed.code == 0, allowed.err
    assert json.loads((tmp_path / "r" / "run.json").read_text())["audit"]["allow_leaks"]
    assert rcb_agent("verify", "r", cwd=tmp_path).code == 0
    record = json.loads((tmp_path / "r" / "audit.json").read_text())
    assert any(place["avoidable"] for task in record["tasks"] for place in task["visible"])
    (tmp_path / "r" / "audit.json").write_text(json.dumps({**record, "tasks": []}))
    assert "audit.json: is missing or not what run.json says" in rcb_agent("verify", "r", cwd=tmp_path).out


def test_a_package_that_the_paper_imports_cannot_be_withheld(suite: Path, tmp_path: Path) -> None:
    """Without it the code would not run: said, not refused."""
    home = tmp_path / "python"
    venv.EnvBuilder(symlinks=True, with_pip=False).create(home)
    (packages_of(home) / "cheatsheet.py").write_text(GOLD)
    (suite / "good" / "model.py").write_text(f"import cheatsheet\n{FILES['good/model.py']!s}")
    done = audit(suite, "--python", home / "bin" / "python", cwd=tmp_path)
    assert done.code == 0
    assert {one["kind"] for one in found_for(done)["visible"] if one["place"] == "packages"} == {"visible_package"}


def test_what_an_imported_package_requires_is_needed_too_and_nothing_else(
    suite: Path, tmp_path: Path, bare: Path
) -> None:
    """By the installed metadata: helper is imported and requires inner, which cannot go; stray can."""
    home = tmp_path / "python"
    shutil.copytree(bare, home, symlinks=True)
    install(home, "helper", "pass\n", "Requires-Dist: Inner_Lib (>=1)\nRequires-Dist: stray; extra == 'all'\n")
    install(home, "inner-lib", GOLD)
    install(home, "stray", GOLD)
    (suite / "good" / "model.py").write_text(f"import helper\n{FILES['good/model.py']!s}")
    done = audit(suite, "--python", home / "bin" / "python", cwd=tmp_path)
    kinds = {one["path"]: one["kind"] for one in found_for(done)["visible"] if one["place"] == "packages"}
    assert kinds == {"inner_lib.py": "visible_package", "stray.py": "visible_unneeded_package"}
    assert done.code == 3


def install(home: Path, name: str, code: str, more: str = "") -> None:
    module = name.replace("-", "_")
    (packages_of(home) / f"{module}.py").write_text(code)
    about = packages_of(home) / f"{module}-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n{more}")
    (about / "RECORD").write_text(f"{module}.py,,\n{module}-1.dist-info/METADATA,,\n")


def test_git_holds_the_files_of_the_workspace_and_nothing_else(suite: Path) -> None:
    """An object that is no file of the workspace is an answer's best hiding place."""
    task = next(task for task in load_suite(str(suite)).tasks if task.problem.name == "double it")
    assert not list(find_in_git(task, telling_lines(task.answer.gold)))
    found = make_repository({"model.py": GOLD.encode()})
    _check_objects(found, {GOLD.encode()})
    with pytest.raises(EnvironmentFault, match="none of the workspace's files"):
        _check_objects(found, set())


def test_an_audit_is_looked_up_until_something_changes(suite: Path, tmp_path: Path) -> None:
    """A second start costs nothing; a stranger that changes is looked at again."""
    for _ in range(2):
        audit(suite, cwd=tmp_path)
    assert len(list((tmp_path / "c" / "audits").iterdir())) == 1
    (suite / "good" / "notes" / "old.py").write_text("nothing\n")
    assert [one["path"] for one in found_for(audit(suite, cwd=tmp_path))["withheld"]] == ["context.py"]


def test_packages_are_read_when_a_runtime_is_built(tmp_path: Path) -> None:
    """Not when a run begins: that is when somebody waits."""
    try:
        built = load_runtime("mini")
    except EnvironmentFault as fault:
        pytest.skip(str(fault))
    cache = tmp_path / "cache"
    (cache / "runtimes").mkdir(parents=True)
    (cache / "runtimes" / runtime_path("mini").name).symlink_to(runtime_path("mini"))
    assert rcb_agent("env", "build", "mini", cwd=tmp_path, env={"RCB_AGENT_CACHE": str(cache)}).code == 0
    assert (cache / "indexes" / index_folder(built).name).is_dir()


def test_tables_of_packages_that_changed_are_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each change of a furnished Python leaves a table behind; another runtime's are not touched."""
    monkeypatch.setenv("RCB_AGENT_CACHE", str(tmp_path / "cache"))
    home = tmp_path / "python"
    venv.EnvBuilder(symlinks=True, with_pip=False).create(home)
    runtime, other = (Runtime(name, home / "bin" / "python", (), "0" * 64) for name in ("own", "own-2"))
    index_packages(other)
    for size in range(5):
        (packages_of(home) / "thing.py").write_text(GOLD + "another = 1\n" * size)
        found = index_packages(runtime).find({"y=x+x"})
        assert found == {"thing.py": {"y=x+x"}}
    names = [path.name.rpartition("-")[0] for path in (tmp_path / "cache" / "indexes").iterdir() if path.is_dir()]
    assert sorted(names) == ["own", "own", "own", "own-2"]
