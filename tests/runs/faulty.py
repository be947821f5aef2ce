"""Runs the command line against ``tests/attacks/fake_model.py``, one script per model name."""

import importlib.util
import io
import json
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.runs.command import Done, rcb_agent

TASK = "silt/filling of the last block"
KEY = "sk-planted-4b1d77aa"
PATIENCE = "timeout=4,attempts=3,first_wait=0.02,longest_wait=0.1"
FAKE = Path(__file__).parent.parent / "attacks" / "fake_model.py"


@dataclass
class Script:
    """What one model of the endpoint goes through, and what it was asked."""

    script: list[str]
    seen: list[dict[str, Any]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)


@contextmanager
def endpoint(scripts: Mapping[str, str]) -> Iterator[tuple[str, dict[str, Script]]]:
    """Serve one script per model name, all at one address."""
    spec = importlib.util.spec_from_file_location("fake_model", FAKE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    models = {name: Script(script.split("|")) for name, script in scripts.items()}

    class Dispatcher(module.H):  # type: ignore[name-defined,misc]
        rfile: Any
        server: Any

        def do_POST(self) -> None:  # noqa: N802 - the base class names it so
            raw = self.rfile.read(int(self.headers["content-length"]))
            connection, whole = self.rfile, self.server
            self.rfile, self.server = io.BytesIO(raw), models[json.loads(raw)["model"]]
            try:
                super().do_POST()
            finally:
                self.rfile, self.server = connection, whole

    server = module.serve(0, ["ok"])
    server.RequestHandlerClass, server.handle_error = Dispatcher, lambda *_: None
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1", models
    finally:
        server.shutdown()
        server.server_close()


def run(folder: Path, url: str, models: Iterable[str], *words: str, agent: str = "react") -> Done:
    given = ["--agent", agent, "--tasks", TASK, "--out", "run", "--json"]
    for model in models:
        given += ["--model", f"openai/{model}"]
    return command(folder, url, "run", *given, *words)


def command(folder: Path, url: str, *words: str) -> Done:
    environment = {"OPENAI_API_BASE": url, "OPENAI_API_KEY": KEY, "RCB_AGENT_PATIENCE": PATIENCE}
    return rcb_agent(*words, cwd=folder, env=environment)
