"""Fills the prompt templates in ``prompts/`` and hashes them.

The templates are part of what is measured: ``prompts_digest`` stands in every run's config. Values are put in once
and never looked at again, so a paper that holds a dollar sign changes nothing.
"""

import hashlib
from importlib.resources import files
from string import Template

from rcb_agent.agents.arguments import clean
from rcb_agent.tasks.base import Problem, SourceFile

_FOLDER = files("rcb_agent.agents") / "prompts"


def render(template: str, **values: object) -> str:
    """Return the named template with its values; one that is missing is a KeyError."""
    text = (_FOLDER / f"{template}.md").read_text(encoding="utf-8")
    return clean(Template(text).substitute(values))


def prompts_digest() -> str:
    """Return a hash over the names and bytes of all templates."""
    digest = hashlib.sha256()
    for file in sorted(_FOLDER.iterdir(), key=lambda one: one.name):
        data = file.read_bytes()
        digest.update(f"{file.name}\0{len(data)}\0".encode() + data)
    return digest.hexdigest()


def describe_problem(problem: Problem) -> dict[str, object]:
    """Return the values that every template shares."""
    return {"task_id": problem.task_id, "path": problem.path, "name": problem.name, "loc": problem.loc}


def quote_file(file: SourceFile, tag: str = "file") -> str:
    """Return a file whole, with its name, between two tags."""
    text = file.text if file.text.endswith("\n") else f"{file.text}\n"
    return f'<{tag} path="{file.path}">\n{text}</{tag}>\n'
