"""Looks at the machine and says what would keep a run from working, each thing with the command that mends it.

Every check tries the real thing: a sandbox is opened, a cgroup made, a file written. A check that breaks is a
finding, not a crash. Values of keys are never read into a text; nothing is looked up outside the machine.
"""

import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rcb_agent.environments.base import Limits, Runtime, SandboxSpec
from rcb_agent.environments.runtimes import RUNTIMES, load_runtime, runtime_path, runtime_variable
from rcb_agent.errors import EnvironmentFault, RcbAgentError
from rcb_agent.tasks.cache import cache_folder

OK, WARNING, PROBLEM = "ok", "warning", "problem"
EXIT_PROBLEM = 4
MAIN_RUNTIME = "mini"  # what `rcb-agent run` needs when nothing else is said
NOT_NEEDED = ("cgroups", "docker", "keys")
LOW_MEGABYTES, NEEDED_MEGABYTES = 1024, 100

# Variables from which LiteLLM takes the key of a provider; a new one costs a line, a missing one only a warning.
KEYS = (
    "OPENAI_API_KEY",
    "ANTHROPIC_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "AZURE_API_KEY",
    "AZURE_OPENAI_API_KEY",
    "AZURE_AI_API_KEY",
    "AWS_ACCESS_KEY_ID",
    "AWS_BEARER_TOKEN_BEDROCK",
    "OPENROUTER_API_KEY",
    "MISTRAL_API_KEY",
    "COHERE_API_KEY",
    "DEEPSEEK_API_KEY",
    "GROQ_API_KEY",
    "XAI_API_KEY",
    "TOGETHERAI_API_KEY",
    "FIREWORKS_AI_API_KEY",
    "HUGGINGFACE_API_KEY",
    "HF_TOKEN",
    "NVIDIA_NIM_API_KEY",
    "CEREBRAS_API_KEY",
    "DASHSCOPE_API_KEY",
    "MOONSHOT_API_KEY",
    "PERPLEXITYAI_API_KEY",
    "DEEPINFRA_API_KEY",
    "HOSTED_VLLM_API_KEY",
    "LITELLM_PROXY_API_KEY",
)
ENDPOINTS = ("_API_BASE", "_BASE_URL")

# Settings by which a system forbids user namespaces: the value that does, and the command that allows them.
NAMESPACE_SWITCHES = (
    (
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "kernel.apparmor_restrict_unprivileged_userns=0",
    ),
    ("/proc/sys/kernel/unprivileged_userns_clone", "0", "kernel.unprivileged_userns_clone=1"),
    ("/proc/sys/user/max_user_namespaces", "0", "user.max_user_namespaces=15000"),
)

LOOK_AROUND = """\
import os
routes = open("/proc/net/route").read().splitlines()[1:]
print(os.getuid(), len(routes), os.readlink("/proc/self/ns/net"))
"""


@dataclass(frozen=True, slots=True)
class Check:
    """One finding. ``status`` is ok, warning (a run works, with a consequence) or problem (it does not)."""

    name: str
    status: str
    detail: str
    fix: str = ""


def run_doctor(options: Mapping[str, Any]) -> int:
    """Print all checks; returns 0 when the main job can run, else EXIT_PROBLEM."""
    checks = tuple(look(options["results"]))
    if options["as_json"]:
        import json

        sys.stdout.write(json.dumps({"checks": [asdict(check) for check in checks]}) + "\n")
    else:
        print_checks(checks)
    return EXIT_PROBLEM if any(check.status == PROBLEM for check in checks) else 0


def look(results: Path) -> Iterator[Check]:
    """Carry out every check."""
    looks: list[tuple[str, Callable[[], Check]]] = [
        ("python", check_python),
        ("git", check_git),
        ("bubblewrap", check_bubblewrap),
        ("cgroups", check_cgroups),
        *((f"runtime {name}", lambda name=name: check_runtime(name)) for name in sorted(RUNTIMES)),
        ("docker", check_docker),
        ("cache folder", check_cache),
        ("results folder", lambda: check_folder("results folder", results, "choose another one: --results FOLDER")),
        ("temporary folder", check_temporary),
        ("keys", check_keys),
    ]
    for name, check in looks:
        try:
            yield check()
        except Exception as error:  # noqa: BLE001 - the boundary: what cannot be looked at is itself the finding
            status = WARNING if name in NOT_NEEDED else PROBLEM
            yield Check(name, status, f"cannot be looked at: {type(error).__name__}: {error}", "please report it")


def check_python() -> Check:
    """Look at the Python that runs this."""
    detail = f"{platform.python_version()} ({sys.executable})"
    if not sys.platform.startswith("linux"):
        return Check("python", PROBLEM, f"{detail} on {sys.platform}", "use Linux, or a container or machine with it")
    if sys.version_info < (3, 11):  # noqa: UP036 - a checkout is run by whatever Python somebody has
        return Check("python", PROBLEM, f"{detail}: too old", "install Python 3.11 or newer; RCB_AGENT_PYTHON names it")
    return Check("python", OK, detail)


def check_git() -> Check:
    """Start git."""
    fix = "apt-get install git"
    if shutil.which("git") is None:
        return Check("git", PROBLEM, "not installed; workspaces are repositories", fix)
    version = first_line("git", "--version")
    return Check("git", OK if version else PROBLEM, version or "does not run", "" if version else fix)


def first_line(*command: str) -> str:
    """What a program prints first; empty where it does not run."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=True, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.SubprocessError, ValueError):
        return ""
    return (done.stdout.splitlines() or [""])[0]


def check_bubblewrap() -> Check:
    """Open a sandbox and run a command in it."""
    from rcb_agent.environments.bubblewrap import open_bubblewrap

    started = time.monotonic()
    try:
        with open_bubblewrap(SandboxSpec(any_runtime())) as box:
            result = box.run(["python", "-I", "-S", "-c", LOOK_AROUND], timeout=10)
            syscalls = box.enforcement["syscalls"]
    except EnvironmentFault as fault:
        return Check("bubblewrap", PROBLEM, str(fault), mend_bubblewrap())
    words = result.stdout.decode("utf-8", "replace").split()
    if result.exit_code or len(words) != 3:
        return Check("bubblewrap", PROBLEM, f"a command in a sandbox failed: {result.text(300)}", mend_bubblewrap())
    uid, routes, network = words
    if uid == "0" or routes != "0" or network == os.readlink("/proc/self/ns/net"):  # noqa: PTH115 - no path
        detail = f"a sandbox opens but does not isolate: uid {uid}, {routes} network routes, {network}"
        return Check("bubblewrap", PROBLEM, detail, "apt-get install --only-upgrade bubblewrap")
    seconds = time.monotonic() - started
    version = first_line("bwrap", "--version")
    detail = f"{version}: a sandbox ran a command as uid {uid}, network off, system calls: {syscalls} ({seconds:.1f} s)"
    return Check("bubblewrap", OK, detail)


def any_runtime() -> Runtime:
    """Return the runtime a run would use, or the Python behind this one while that is not built."""
    try:
        return load_runtime(MAIN_RUNTIME)
    except (RcbAgentError, OSError):
        python = Path(os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable))
        return Runtime("python", python, (), "")


def mend_bubblewrap() -> str:
    """Return the command that lets bubblewrap make sandboxes here."""
    if shutil.which("bwrap") is None:
        return "apt-get install bubblewrap"
    for path, forbidding, setting in NAMESPACE_SWITCHES:
        try:
            if Path(path).read_text().strip() == forbidding and os.geteuid() != 0:
                return f"sudo sysctl -w {setting}"
        except OSError:
            continue
    return "in a container: docker run --privileged ...; else --sandbox host, which isolates nothing"


def check_cgroups() -> Check:
    """Make a cgroup with limits and remove it."""
    from rcb_agent.environments.cgroups import CONTROLLERS, open_group

    version = "v2" if Path("/sys/fs/cgroup/cgroup.controllers").exists() else "v1"
    group = open_group(Limits())
    usable = sorted(group.folders) if group else []
    if group is not None:
        group.remove()
    missing = [name for name in CONTROLLERS if name not in usable]
    if not missing:
        return Check("cgroups", OK, f"{version}: {', '.join(usable)} can be limited")
    consequences = {
        "memory": "memory is bounded per process only",
        "pids": "processes are bounded by rlimit",
        "cpu": "CPU is not bounded",
    }
    detail = (
        f"{version}: {', '.join(usable) or 'nothing'} can be limited; {'; '.join(consequences[m] for m in missing)}"
    )
    in_session = version == "v2" and os.geteuid() != 0 and shutil.which("systemd-run")
    fix = "systemd-run --user --scope rcb-agent ..." if in_session else "run as root, with /sys/fs/cgroup writable"
    return Check("cgroups", WARNING, f"{detail}; every record says so", fix)


def check_runtime(name: str) -> Check:
    """Find a runtime and start its Python; only the main one is needed by the main job."""
    from rcb_agent.environments.interpreters import describe_interpreter

    label, fix = f"runtime {name}", f"rcb-agent env build {name}"
    bad = PROBLEM if name == MAIN_RUNTIME else WARNING
    variable = runtime_variable(name)
    if os.environ.get(variable):
        fix = f"unset {variable}"
    try:
        runtime = load_runtime(name)
        if not os.environ.get(variable):
            fix = f"rm -r {runtime_path(name)} && {fix}"
        version = describe_interpreter(runtime.python).version
    except (RcbAgentError, OSError) as fault:
        return Check(label, bad, str(fault), fix)
    return Check(label, OK, f"Python {version}, packages: {', '.join(runtime.packages) or 'none'} ({runtime.python})")


def check_docker() -> Check:
    """Ask the engine, if there is one, for itself, the base image and the images of runtimes; all are optional."""
    from rcb_agent.environments.engine import connect, engine_address
    from rcb_agent.environments.images import default_base, find_base, find_image

    optional = "only --sandbox docker needs it"
    try:
        version = connect().version()["Version"]
    except EnvironmentFault as fault:
        return Check("docker", WARNING, f"{fault}; {optional}", "apt-get install docker.io && dockerd &")
    detail, base = f"engine {version} at {engine_address()}", default_base()
    try:
        find_base(base)
    except EnvironmentFault as fault:
        return Check("docker", WARNING, f"{detail}; {fault}; {optional}", f"docker pull {base}")
    built = []
    for name in sorted(RUNTIMES):
        with suppress(RcbAgentError, OSError):
            built.append(find_image(load_runtime(name), base).name)
    detail = f"{detail}; base image {base}; images: {', '.join(built) or 'none'}"
    if not built:
        return Check("docker", WARNING, f"{detail}; {optional}", f"rcb-agent env build --sandbox docker {MAIN_RUNTIME}")
    return Check("docker", OK, detail)


def check_cache() -> Check:
    """Look at where runtimes and the outcomes of gold code are kept: without it a run only repeats work."""
    check = check_folder("cache folder", cache_folder(), "export RCB_AGENT_CACHE=/a/folder/that/can/be/written")
    if check.status != PROBLEM:
        return check
    return Check(check.name, WARNING, f"{check.detail}; nothing can be built or kept there", check.fix)


def check_temporary() -> Check:
    """Look at the folder for what is short-lived."""
    fix = "export TMPDIR=/a/folder/that/can/be/written"
    try:
        place = Path(tempfile.gettempdir())
    except OSError as error:
        return Check("temporary folder", PROBLEM, str(error), fix)
    return check_folder("temporary folder", place, fix)


def check_folder(name: str, wanted: Path, fix: str) -> Check:
    """Write a file where a folder is, or would be made, and see what room there is."""
    try:
        place = wanted.absolute()
        while not os.path.lexists(place) and place != place.parent:
            place = place.parent
        with tempfile.TemporaryFile(dir=place) as file:
            file.write(b"x")
        free = shutil.disk_usage(place).free >> 20
    except OSError as error:
        return Check(name, PROBLEM, f"{wanted}: cannot be written: {error.strerror or error}", fix)
    detail = f"{wanted.absolute()}: {free / 1024:.1f} GiB free"
    if free < NEEDED_MEGABYTES:
        return Check(name, PROBLEM, f"{detail}, at least {NEEDED_MEGABYTES} MiB are needed", fix)
    return Check(name, OK if free >= LOW_MEGABYTES else WARNING, detail, "" if free >= LOW_MEGABYTES else fix)


def check_keys() -> Check:
    """Name the variables with keys and endpoints of providers; never what is in them."""
    present = [name for name in KEYS if os.environ.get(name)]
    spaced = [name for name in present if os.environ[name] != os.environ[name].strip()]
    endpoints = sorted(name for name in os.environ if name.endswith(ENDPOINTS) and os.environ[name])
    detail = f"set: {', '.join(present) or 'none'}; endpoints: {', '.join(endpoints) or 'none'}"
    if spaced:
        names = ", ".join(spaced)
        fix = f'export {spaced[0]}="$(printf %s "${spaced[0]}" | tr -d "[:space:]")"'
        return Check("keys", WARNING, f"{detail}; white space around the value of {names}", fix)
    if not present:
        return Check("keys", WARNING, f"{detail}; only scripted/demo can be asked", "export OPENAI_API_KEY=...")
    return Check("keys", OK, detail)


def print_checks(checks: tuple[Check, ...]) -> None:
    """Print a table for a person, what to do below what is wrong."""
    from rich.table import Table
    from rich.text import Text

    from rcb_agent.runs.screen import open_console, visible

    styles = {OK: "green", WARNING: "yellow", PROBLEM: "red"}
    table = Table()
    for name in ("check", "status", "detail"):
        table.add_column(name, overflow="fold")
    for check in checks:
        fix = f"\nfix: {check.fix}" if check.fix else ""
        table.add_row(check.name, Text(check.status, styles[check.status]), Text(visible(check.detail + fix)))
    console = open_console()
    console.print(table)
    bad = [check.name for check in checks if check.status == PROBLEM]
    console.print(Text(f"not ready: {', '.join(bad)}" if bad else "ready: rcb-agent run --agent react"))
