"""Guards: a verdict that depends on which isolated sandbox it was found in, and docker faults that are scores."""

import os
import threading
import time
from pathlib import Path

import pytest

from rcb_agent.environments.engine import connect
from rcb_agent.environments.images import build_image, image_name
from rcb_agent.environments.runtimes import load_runtime
from rcb_agent.errors import EnvironmentFault
from tests.engine import provide_base
from tests.runs.command import Done, rcb_agent, rcb_agent_within, records
from tests.runs.test_attacks_through_commands import ATTACKS, call, script, solution

pytestmark = [pytest.mark.sandbox, pytest.mark.docker]

# One blank of each of six papers.
TASKS = (
    "tidal/height*",
    "ripple/weights of the self loops",
    "silt/small entries settle in place",
    "chord/soft unit length",
    "parley/tokens that would close a loop",
    "weir/order of the basins",
)
CANDIDATES = ("g01", "g07", "g17", "g33", "g34")
COMMANDS = ("a01", "a15")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A base image on which the runtime of the suites below is built."""
    name = provide_base(tmp_path_factory.getbasetemp().parent)
    try:
        build_image(load_runtime("mini"), name, lambda _line: None)
    except EnvironmentFault as fault:
        if "not built" in str(fault):
            pytest.skip(str(fault))
        raise
    return name


def answers(folder: Path, sandbox: str, base: str, *words: str) -> dict[tuple[str, str, str], tuple[str, str]]:
    """Run and return (task, arm, scope) -> (verdict, reason)."""
    more = ("--docker-base", base) if sandbox == "docker" else ()
    done = rcb_agent("run", "--sandbox", sandbox, *more, *words, "--json", "--out", folder / sandbox, cwd=folder)
    assert done.code == 0, done.err
    grades = records(folder / sandbox, "grades.jsonl")
    return {(g["task"], g["arm"], g["scope"]): (g["verdict"], g["reason"]) for g in grades}


def test_controls_have_the_same_verdicts(tmp_path: Path, base: str) -> None:
    """Gold passes and nothing fails, for the same reason, on one task of each of six papers."""
    words = [word for task in TASKS for word in ("--tasks", task)]
    controls = ("--agent", "oracle", "--agent", "null", *words)
    inside = {sandbox: answers(tmp_path, sandbox, base, *controls) for sandbox in ("bubblewrap", "docker")}
    assert inside["docker"] == inside["bubblewrap"]
    assert len({task for task, _, _ in inside["docker"]}) >= 6
    assert {verdict for (_, arm, _), (verdict, _) in inside["docker"].items() if arm == "oracle"} == {"passed"}
    assert {verdict for (_, arm, _), (verdict, _) in inside["docker"].items() if arm == "null"} == {"failed"}


def test_attacks_have_the_same_verdicts(attack_suite: Path, tmp_path: Path, base: str) -> None:
    """Programs as the solution, programs run in the workspace, and the right answer: the same ends in both."""
    arms = [script(tmp_path, "honest", call("write_file", path="model.py", content=solution("plain")))]
    for program in sorted((ATTACKS / "poc").glob("*.py")):
        text = program.read_text()
        if program.stem[:3] in CANDIDATES:
            arms.append(script(tmp_path, program.stem, call("write_file", path="model.py", content=text)))
        elif program.stem[:3] in COMMANDS:
            calls = [call("write_file", path="attack.py", content=text), call("run_python", path="attack.py")]
            arms.append(script(tmp_path, program.stem, *calls))
    assert len(arms) == 1 + len(CANDIDATES) + len(COMMANDS)
    words = [word for arm in arms for word in ("--arm", arm)]
    words = ["--suite", str(attack_suite), "--tasks", "plain/gated mean", *words]
    inside = {sandbox: answers(tmp_path, sandbox, base, *words) for sandbox in ("bubblewrap", "docker")}
    assert inside["docker"] == inside["bubblewrap"]
    passed = {arm for (_, arm, _), (verdict, _) in inside["docker"].items() if verdict == "passed"}
    assert passed == {"honest"}


def one_line(done: Done, code: int) -> str:
    assert done.code == code, done.err
    said = [line for line in done.err.splitlines() if line.startswith("rcb-agent: error")]
    assert len(said) == 1, done.err
    assert "Traceback" not in done.err
    return said[0]


MISSING: dict[str, tuple[tuple[str, ...], str, int, str]] = {
    "no engine at an address": (("--sandbox", "docker"), "tcp://127.0.0.1:1", 4, "no docker engine answers at tcp://"),
    "no engine at a socket": (("--sandbox", "docker"), "unix:///none.sock", 4, "no docker engine answers at unix://"),
    "an engine that cannot be attached to": (("--sandbox", "docker"), "ssh://there", 4, "cannot be attached to"),
    "no base image": (
        ("--sandbox", "docker", "--docker-base", "rcb-no-such:1"),
        "",
        4,
        "image rcb-no-such:1 is not there",
    ),
    "no such engine runtime": (
        ("--sandbox", "docker", "--docker-runtime", "nothing"),
        "",
        4,
        "knows no runtime nothing",
    ),
    "an option of another sandbox": (("--docker-runtime", "runc"), "", 2, "--docker-runtime is for --sandbox docker"),
    "a Python of the machine": (("--sandbox", "docker", "--python", "/usr/bin/python3"), "", 2, "leave out --python"),
}


# The SDK leaves the socket of a connection that fails to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("missing", sorted(MISSING))
def test_what_is_missing_is_said_in_one_line(
    missing: str, tmp_path: Path, base: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the right exit code, and nothing is written."""
    words, engine, code, line = MISSING[missing]
    monkeypatch.setenv("RCB_DOCKER_BASE", base)
    if engine:
        monkeypatch.setenv("DOCKER_HOST", engine)
    words = ("run", "--agent", "oracle", "--tasks", TASKS[1], *words, "--results", str(tmp_path / "results"))
    assert line in one_line(rcb_agent_within(*words), code)
    assert not (tmp_path / "results").exists()


def make_base(base: str, name: str) -> str:
    """Give another image, the same but for its id, a name."""
    engine = connect()
    made = engine.create_container(base, ["true"])["Id"]
    engine.commit(made, name, "1")
    engine.remove_container(made)
    return f"{name}:1"


def test_another_base_image_is_another_run(tmp_path: Path, base: str) -> None:
    """A run says what it was made from; built again it goes on, but not on a base image that has changed."""
    moving = f"rcb-agent-test-moving-{os.getpid()}"
    engine, name, mini = connect(), make_base(base, moving), load_runtime("mini")
    out = tmp_path / "run"
    words = ("run", "--agent", "null", "--tasks", TASKS[1], "--sandbox", "docker", "--docker-base", name)
    try:
        image = build_image(mini, name, lambda _line: None)
        assert rcb_agent(*words, "--out", out, cwd=tmp_path).code == 0
        engine.remove_image(image.name, force=True)
        again = build_image(mini, name, lambda _line: None)
        assert again.name == image.name
        assert again.id != image.id
        resumed = rcb_agent("resume", out, cwd=tmp_path)
        assert resumed.code == 0, resumed.err
        make_base(base, moving)
        done = rcb_agent("resume", out, cwd=tmp_path)
    finally:
        for each in (image.name, name):
            engine.remove_image(each, force=True)
    assert f"another base image {moving}:1" in one_line(done, 2)
    assert image.id in (out / "run.json").read_text()


def test_an_image_that_goes_in_mid_run_is_not_measured(tmp_path: Path, base: str) -> None:
    """What could not be opened is nobody's failure: not measured, exit code 1, and resume goes on."""
    engine, name = connect(), make_base(base, f"rcb-agent-test-going-{os.getpid()}")
    out, mini = tmp_path / "run", load_runtime("mini")
    image = build_image(mini, name, lambda _line: None)
    assert image.name == image_name(mini, image.base)

    def remove_soon() -> None:
        trials = out / "trials.jsonl"
        while not trials.exists() or not trials.read_text():
            time.sleep(0.05)
        while True:
            try:
                engine.remove_image(image.name, force=True)
            except Exception:  # noqa: BLE001 -- a container still uses it
                time.sleep(0.05)
            else:
                return

    thread = threading.Thread(target=remove_soon, daemon=True)
    thread.start()
    words = ("--agent", "react", "--tasks", "ripple/*", "--workers", "1", "--docker-base", name)
    try:
        done = rcb_agent("run", "--sandbox", "docker", *words, "--json", "--out", out, cwd=tmp_path)
    finally:
        engine.remove_image(name, force=True)
    assert done.code == 1, done.err
    grades = records(out, "grades.jsonl")
    gone = [grade for grade in grades if "No such image" in grade["message"]]
    assert gone
    assert {grade["verdict"] for grade in gone} == {"not_measured"}


def test_clean_says_what_it_removes(base: str) -> None:
    """A dead owner's container goes, an unrelated one of a similar name stays; --dry-run only says so."""
    from rcb_agent.environments.images import OWNER_LABEL
    from rcb_agent.environments.owners import home_mark

    engine, unique = connect(), f"rcb-agent-{time.monotonic_ns()}"
    kept = engine.create_container(base, ["true"], name=f"{unique}-mine")["Id"]
    printed: list[str] = []
    try:
        for _ in range(5):  # a run that starts elsewhere at this moment may be quicker
            dead = engine.create_container(base, ["true"], name=unique, labels={OWNER_LABEL: f"{home_mark()}.1.1"})[
                "Id"
            ]
            said = rcb_agent_within("clean", "--dry-run").out
            printed += [line for line in (said + rcb_agent_within("clean").out).splitlines() if unique in line]
            there = {container["Id"] for container in engine.containers(all=True)}
            assert (dead in there, kept in there) == (False, True)
            if len(printed) == 2:
                break
            printed.clear()
    finally:
        engine.remove_container(kept, force=True)
    assert printed == [f"would remove container {unique}", f"removed container {unique}"]
