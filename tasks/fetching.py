"""One commit of a repository that is not ours, fetched by git and written out as plain files.

Nothing of the source runs and nothing asks for a password; its hooks, attributes and submodules have no effect. What
of the user's git configuration leads to the source (proxies, other addresses, certificates) holds.
"""

import hashlib
import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from rcb_agent.errors import EnvironmentFault, TaskError

Progress = Callable[[float, float], None]

# Protected settings (safe.directory) must stand in a file: git takes no others over to the process that reads a local
# source. An empty helper forgets the ones before it.
CONFIG = """\
{includes}[safe]
\tdirectory = *
[core]
\thooksPath = /dev/null
\taskPass =
\tfsmonitor = false
[credential]
\thelper =
[gc]
\tauto = 0
[fetch]
\trecurseSubmodules = false
[http]
\tlowSpeedLimit = 1000
\tlowSpeedTime = 60
"""
# What servers say that give whole branches only; everything else would be said again.
ONLY_WHOLE = ("unadvertised object", "not our ref", "couldn't find remote ref", "shallow")
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://|[^/]+:")
_CHATTER = re.compile(r"(remote: )?\w+ing \w+|warning:|hint:|From ")
_COMMIT = re.compile(r"[0-9A-Za-z_][0-9A-Za-z_./-]*")


@dataclass(frozen=True, slots=True)
class Fetcher:
    """A repository of our own in ``place`` that takes commits of ``source``, an address or an absolute path."""

    place: Path
    source: str

    def fetch(self, commit: str, progress: Progress) -> str:
        """Fetch one commit, alone where the source allows it, and return its full hash. Raises TaskError."""
        program = self._open()
        if self._try_fetch(program, ("--depth=1", "--", self.source, commit), progress):
            names = ["FETCH_HEAD"]
        else:
            self._try_fetch(program, ("--", self.source, "+refs/*:refs/source/*"), progress, last=True)
            names = [commit, f"source/heads/{commit}", f"source/tags/{commit}"]
        found = (_resolve(program, name) for name in names)
        if sha := next((sha for sha in found if sha), None):
            return sha
        raise TaskError(
            f"{self.shown}: has no commit {commit}: give the right repository by --from, or another commit by --commit"
        )

    def write_folder(self, sha: str, folder: str, target: Path) -> list[str]:
        """Write the files of a folder of a commit; return what is no regular file and was left out."""
        import git

        with git.Repo(self.place / ".git") as repo:
            repo.git.update_environment(**self._environment())
            try:
                return _write_tree(repo.commit(sha).tree / folder, target)
            except KeyError:
                raise TaskError(
                    f"{self.shown}: commit {sha[:12]} has no folder {folder}/: is it the benchmark?"
                ) from None
            except (git.ODBError, ValueError, git.CommandError) as error:
                raise TaskError(
                    f"{self.shown}: objects of commit {sha[:12]} are missing or damaged ({_one_line(str(error))}): "
                    "give a whole clone"
                ) from None

    def write_files(self, sha: str, paths: Sequence[str], target: Path) -> dict[str, str]:
        """Write single files of a commit under their own paths; return the SHA-256 of each that is there."""
        import git

        hashes = {}
        with git.Repo(self.place / ".git") as repo:
            repo.git.update_environment(**self._environment())
            tree = repo.commit(sha).tree
            for path in paths:
                try:
                    item = tree / path
                except KeyError:
                    continue
                if _is_regular(item):
                    hashes[path] = hashlib.sha256(_write_blob(item, target / path)).hexdigest()
        return hashes

    @property
    def shown(self) -> str:
        """The source without a password."""
        return without_password(self.source)

    def _open(self) -> Any:
        if shutil.which("git") is None:
            raise EnvironmentFault("git is not installed: apt-get install git")
        import git

        self.place.mkdir(parents=True)
        self._config.write_text(CONFIG.format(includes="".join(_include(path) for path in _global_configs())))
        program = git.Git(self.place)
        program.update_environment(**self._environment())
        program.init("--quiet", "--template=", "--initial-branch=main")
        return program

    def _try_fetch(self, program: Any, words: Sequence[str], progress: Progress, *, last: bool = False) -> bool:
        """Fetch; False where the source gives no single commits. Raises TaskError for any other failure."""
        lines = run_fetch(program, words, progress)
        if lines is None:
            return True
        if not last and any(word in line for line in lines for word in ONLY_WHOLE):
            return False
        raise TaskError(f"{self.shown}: cannot be fetched: {_reason(lines)}: {self._advice()}")

    def _advice(self) -> str:
        if Path(self.source).is_absolute() or self.source.startswith("file:"):
            return "give a whole clone or bare mirror by --from"
        return "check address and network, or give a clone of it by --from PATH"

    @property
    def _config(self) -> Path:
        return self.place / "gitconfig"

    def _environment(self) -> Mapping[str, str]:
        """Nothing that the harness was started with may lead elsewhere, and nothing may ask."""
        folder = self.place / ".git"
        return {
            "GIT_DIR": str(folder),
            "GIT_COMMON_DIR": str(folder),
            "GIT_WORK_TREE": str(self.place),
            "GIT_INDEX_FILE": str(folder / "index"),
            "GIT_OBJECT_DIRECTORY": str(folder / "objects"),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": "",
            "GIT_NAMESPACE": "",
            "GIT_CONFIG_GLOBAL": str(self._config),
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_ASKPASS": "",
            "SSH_ASKPASS": "",
            "GIT_SSH_COMMAND": f"{os.environ.get('GIT_SSH_COMMAND', 'ssh')} -oBatchMode=yes",
            "GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh",
            "LC_ALL": "C",
        }


def run_fetch(program: Any, words: Sequence[str], progress: Progress) -> list[str] | None:
    """Run ``git fetch``; None when it succeeded, else what it said."""
    import git
    from git.cmd import handle_process_output

    class Told(git.RemoteProgress):
        def update(self, _op: int, done: str | float, total: str | float | None = None, _message: str = "") -> None:
            progress(float(done), float(total or 0))

    told, lines = Told(), list[str]()
    hear = told.new_message_handler()

    def listen(line: str) -> None:
        lines.append(line)
        hear(line)

    command = ["git", "fetch", "--no-tags", "--no-recurse-submodules", "--progress", *words]
    process = program.execute(command, as_process=True, universal_newlines=True)
    handle_process_output(process, None, listen, decode_streams=False)
    try:
        process.wait()
    except git.CommandError:
        return lines
    return None


def name_source(text: str) -> str:
    """Return an address as it is and a path as an absolute one. Raises TaskError for what is neither."""
    path = Path(text).expanduser()
    if path.exists():
        return str(path.absolute())
    if not text.startswith("-") and _ADDRESS.match(text):
        return text
    raise TaskError(f"--from {text!r}: is no address, and there is no such path")


def check_commit(text: str) -> str:
    """Return the name of a commit. Raises TaskError for what cannot be one."""
    if not _COMMIT.fullmatch(text) or ".." in text:
        raise TaskError(f"--commit {text!r}: give a commit's hash, a branch or a tag")
    return text


def without_password(text: str) -> str:
    """Take user and password out of the addresses in a text."""
    return re.sub(r"(?<=://)[^/@\s]+@", "", text)


def _resolve(program: Any, name: str) -> str | None:
    import git

    try:
        return str(program.rev_parse("--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")).split()[-1]
    except git.CommandError:
        return None


def _write_tree(tree: Any, target: Path) -> list[str]:
    """Write a tree's regular files as they are stored: no filters, no line endings, no links."""
    left_out = []
    for item in tree.traverse():
        path = PurePosixPath(item.path).relative_to(tree.path)
        if item.type == "tree":
            continue
        if not _is_regular(item) or {"..", ".git"} & set(path.parts):
            left_out.append(path.as_posix())
            continue
        _write_blob(item, target / path)
    return left_out


def _is_regular(item: Any) -> bool:
    return bool(item.type == "blob" and item.mode & 0o170000 == 0o100000)


def _write_blob(item: Any, path: Path) -> bytes:
    data: bytes = item.data_stream.read()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return data


def _global_configs() -> list[Path]:
    if chosen := os.environ.get("GIT_CONFIG_GLOBAL"):
        return [Path(chosen)]
    home = Path(os.environ.get("HOME", "/nonexistent"))
    return [Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config") / "git" / "config", home / ".gitconfig"]


def _include(path: Path) -> str:
    quoted = str(path.absolute()).replace("\\", "\\\\").replace('"', '\\"')
    return f'[include]\n\tpath = "{quoted}"\n'


def _reason(lines: Sequence[str]) -> str:
    """Return the line in which git says what was wrong: the first that is no chatter; the later ones only follow."""
    told = [_one_line(line) for line in lines if line.strip() and not _CHATTER.match(line)]
    return without_password(re.sub(r"^(fatal|error): ", "", told[0])) if told else "git said nothing"


def _one_line(text: str) -> str:
    return " ".join(text.split())[:300]
