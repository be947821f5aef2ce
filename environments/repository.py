"""The git repository of a workspace: exactly one commit, made by the harness before any agent exists.

Its files are made once per content in a temporary folder and sent into sandboxes as bytes. No git ever runs
on what an agent has written, and nothing of the machine's git configuration, templates or environment gets in.
"""

import hashlib
import threading
import zlib
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from rcb_agent.errors import EnvironmentFault

MOMENT = "2000-01-01T00:00:00+00:00"
NAME, ADDRESS = "workspace", "workspace@localhost"
MESSAGE = "The code as given"
MOST_KEPT = 32

_kept: dict[str, dict[str, bytes]] = {}
_making = threading.Lock()


def repository_files(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return path and bytes of everything below ``.git`` for one commit of these files."""
    key = digest_of(files)
    with _making:
        if key not in _kept:
            while len(_kept) >= MOST_KEPT:
                del _kept[next(iter(_kept))]
            _kept[key] = make_repository(files)
        return dict(_kept[key])


def digest_of(files: Mapping[str, bytes]) -> str:
    """Hash names and contents."""
    total = hashlib.sha256()
    for path in sorted(files):
        name = path.encode("utf-8", "surrogateescape")
        total.update(b"%d %d " % (len(name), len(files[path])) + name + files[path])
    return total.hexdigest()


def make_repository(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Commit the files in a temporary folder and read the repository back."""
    with TemporaryDirectory(prefix="rcb-agent-") as place:
        home, tree = Path(place, "home"), Path(place, "tree")
        home.mkdir()
        for path, data in files.items():
            target = tree / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
        tree.mkdir(exist_ok=True)
        commit_everything(tree, home)
        folder = tree / ".git"
        found = {path.relative_to(tree).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    kept = {path: data for path, data in found.items() if path != ".git/COMMIT_EDITMSG"}
    _check_objects(kept, set(files.values()))
    return kept


def object_body(data: bytes) -> tuple[bytes, bytes]:
    """Return kind and body of a loose object, such as ``(b"blob", ...)``. Raises zlib.error where it is none."""
    head, _, body = zlib.decompress(data).partition(b"\0")
    return head.partition(b" ")[0], body


def _check_objects(found: Mapping[str, bytes], given: set[bytes]) -> None:
    """Whatever git holds of file contents is a file that was given: an answer could hide nowhere better."""
    for path, data in found.items():
        if path.startswith(".git/objects/"):
            try:
                kind, body = object_body(data)
            except zlib.error:
                raise EnvironmentFault(f"git made {path}, which is no loose object: this git is not known") from None
            if kind == b"blob" and body not in given:
                raise EnvironmentFault(f"git made {path}, which is none of the workspace's files")


def commit_everything(tree: Path, home: Path) -> None:
    """Make the repository and its one commit."""
    import git

    program = git.Git(tree)
    program.update_environment(**isolated_environment(tree, home))
    try:
        program.init("--quiet", "--template=", "--initial-branch=main")
        program.add("--all", "--force", ".")
        quiet = ("-c", "core.logAllRefUpdates=false", "-c", "gc.auto=0", "-c", "commit.gpgSign=false")
        program.execute(["git", *quiet, "commit", "--quiet", "--no-verify", "--allow-empty", f"--message={MESSAGE}"])
    except git.CommandError as error:
        reason = str(error.stderr).strip().splitlines() or [str(error)]
        raise EnvironmentFault(f"git could not make the workspace's repository: {reason[-1].strip()}") from None


def isolated_environment(tree: Path, home: Path) -> dict[str, str]:
    """Values for every variable by which git would look elsewhere, whatever the harness itself was started with."""
    folder = tree / ".git"
    return {
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_SYSTEM": "/dev/null",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_COUNT": "0",
        "GIT_CONFIG_PARAMETERS": "",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_DIR": str(folder),
        "GIT_COMMON_DIR": str(folder),
        "GIT_WORK_TREE": str(tree),
        "GIT_INDEX_FILE": str(folder / "index"),
        "GIT_OBJECT_DIRECTORY": str(folder / "objects"),
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": "",
        "GIT_NAMESPACE": "",
        "GIT_TEMPLATE_DIR": "",
        "GIT_DEFAULT_HASH": "sha1",
        "GIT_TRACE": "0",
        "GIT_AUTHOR_NAME": NAME,
        "GIT_AUTHOR_EMAIL": ADDRESS,
        "GIT_AUTHOR_DATE": MOMENT,
        "GIT_COMMITTER_NAME": NAME,
        "GIT_COMMITTER_EMAIL": ADDRESS,
        "GIT_COMMITTER_DATE": MOMENT,
        "LC_ALL": "C",
    }
