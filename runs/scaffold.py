"""The files that ``tasks new`` writes: what an author begins with, and what is left to write in each.

Every place that is the author's says TO_WRITE; ``tasks check`` finds those that are left.
"""

import ast
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from rcb_agent.tasks.folders import module_name
from rcb_agent.tasks.syntax import parse_quietly

TO_WRITE = "TO WRITE"


@dataclass(frozen=True, slots=True)
class Draft:
    """A paper to be: ``annotated`` maps the paths of its code to their text, markers in place."""

    paper_id: str
    title: str
    runtime: str
    annotated: Mapping[str, str]

    @property
    def first(self) -> str:
        """The file that tests and reference are about, until the author says otherwise."""
        return next(iter(self.annotated))

    @property
    def reference(self) -> str:
        """The path of its reference: beside the code, which is where tests import it from."""
        path = PurePosixPath(self.first)
        return str(path.with_name(f"{path.stem}_ref.py"))


def skeleton_files(draft: Draft) -> dict[str, str]:
    """Return path and text of everything in the paper's folder."""
    return {
        **draft.annotated,
        draft.reference: _reference(draft),
        "paper2code_paper.md": _PAPER.format(title=draft.title, mark=TO_WRITE),
        "paper2code_test.py": _test(draft),
        "rcb-agent.yaml": _OWN_KEYS.format(runtime=draft.runtime, mark=TO_WRITE),
    }


def paper_entry(draft: Draft) -> str:
    """Return the entry of ``papers.yaml``."""
    paths = [json.dumps(path, ensure_ascii=False) for path in draft.annotated]
    files = paths[0] if len(paths) == 1 else f"[{', '.join(paths)}]"
    return _ENTRY.format(id=draft.paper_id, title=json.dumps(draft.title, ensure_ascii=False), files=files)


def public_names(text: str) -> list[str]:
    """Return the functions and classes that a file defines at its top and that are not private."""
    try:
        body = parse_quietly(text).body
    except SyntaxError:
        return []
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return [node.name for node in body if isinstance(node, kinds) and not node.name.startswith("_")]


def _reference(draft: Draft) -> str:
    names: Sequence[str] = public_names(draft.annotated[draft.first]) or ["..."]
    return _REFERENCE.format(title=draft.title, path=draft.first, names=", ".join(names), mark=TO_WRITE)


def _test(draft: Draft) -> str:
    imports = [
        f"from {module_name(path)} import {', '.join(names)}"
        for path, text in draft.annotated.items()
        if (names := public_names(text))
    ]
    reference = module_name(draft.reference)
    imports = [f"import {reference} as reference", *imports]
    return _TEST.format(title=draft.title, imports="\n".join(imports), mark=TO_WRITE)


_ENTRY = """\
- id: {id}
  title: {title}
  venue: null                # where it was published; null for work that is not
  first_commit_date: null    # when its code became public, such as "2026-11-30": for which models is it new?
  annotated_file_paths: {files}
  context_file_paths: null   # files that agents see as well and that are not graded
"""
_PAPER = """\
# {title}

{mark}: the paper. It is all that an agent knows of the method: everything that the hidden tests ask for has to stand here, in
words or formulas, edge cases included. No line of the code may.
"""
_REFERENCE = '''\
"""The reference of {title}: hidden; the tests compare with it.

{mark}: compute what {path} computes ({names}) in another way, as plainly as you can. No line of {path} may stand here: two
programs of different make that agree are both right more often than one that agrees with its own copy.
"""
'''
_TEST = '''\
"""Hidden tests of {title}."""

import unittest

{imports}


class EquivalenceTest(unittest.TestCase):
    def test_agrees_with_the_reference(self):
        self.fail("{mark}: compare with the reference on inputs from fixed seeds, then the edge cases of the text by hand")


if __name__ == "__main__":
    unittest.main()
'''
_OWN_KEYS = """\
# What rcb-agent needs to know of this paper; docs/adapters.md explains every key.
runtime: {runtime}            # the Python that its code needs; `rcb-agent env list` shows which there are
licence: "{mark}"      # of code, text and tests, such as MIT
verified_by: "{mark}"  # who has read code, text and tests against each other
# public_tests: [test_public.py]   # tests that agents may see and run
grading:
  seconds: 20            # wall limit of one grade; the gold code should need a tenth of it
  # flows: does anything that the candidate returns flow into the reference or into an expected value? Write the answer here.
  # in_place: {{"scale_()": [0]}}    # calls that change their arguments, with the indices of these; needs flows
"""
