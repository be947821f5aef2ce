"""Where a command's result goes and in which form: tables, JSON, CSV or LaTeX; standard output or a file."""

import csv
import io
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from rcb_agent.errors import UsageError
from rcb_agent.runs.base import Json
from rcb_agent.runs.screen import open_console

FORMS = ("json", "csv", "latex")
_SUFFIXES = {".json": "json", ".csv": "csv", ".tex": "latex"}
_FILE_WIDTH = 100


@dataclass(frozen=True, slots=True)
class Forms:
    """How one document is written in each form; ``screen`` prints it on a console."""

    screen: Callable[[Console], None]
    csv: Callable[[], Iterable[Sequence[Any]]]
    latex: Callable[[], str]


def choose_form(options: Mapping[str, Any]) -> str:
    """Return the one form that is asked for, by its flag or by what the file is called; "" is tables."""
    asked = [form for form in FORMS if options.get(f"as_{form}")]
    if len(asked) > 1:
        raise UsageError(f"{' and '.join(f'--{form}' for form in asked)}: choose one")
    out: Path | None = options.get("out")
    return asked[0] if asked else _SUFFIXES.get(out.suffix.lower(), "") if out else ""


def write_document(document: Json, forms: Forms, options: Mapping[str, Any]) -> None:
    """Write a document as the options say. Raises UsageError for a file that cannot be written."""
    form, out = choose_form(options), options.get("out")
    if out is None and not form:
        forms.screen(open_console())
        return
    text = _as_text(document, forms, form)
    if out is None:
        sys.stdout.write(text)
        return
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--out {out}: cannot be written: {error.strerror}") from None
    sys.stderr.write(f"rcb-agent: wrote {out}\n")


def _as_text(document: Json, forms: Forms, form: str) -> str:
    if form == "json":
        return json.dumps(document, ensure_ascii=True, allow_nan=False) + "\n"
    if form == "latex":
        return forms.latex()
    buffer = io.StringIO()
    if form == "csv":
        csv.writer(buffer, lineterminator="\n").writerows(forms.csv())
    else:
        forms.screen(Console(file=buffer, width=_FILE_WIDTH))
    return buffer.getvalue()
