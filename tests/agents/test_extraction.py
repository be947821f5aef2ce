"""Guards: code that was there and is not found, half a block taken for an answer, an indentation made worse."""

from dataclasses import replace

import pytest

from rcb_agent.agents.base import Reply, Solution
from rcb_agent.agents.direct import DirectAgent, blank_indentation, build_prompt
from rcb_agent.agents.extraction import extract_tolerant, extract_upstream, shift_to
from rcb_agent.errors import UsageError
from rcb_agent.tasks.base import SourceFile
from tests.agents.samples import CLOSING, HEAD, MODEL, OPENING, PROBLEM, Talker, make_session, says

FOUND = {
    "python": "so:\n```python\nx = 1\n```\nthat is all",
    "py": "```py\nx = 1\n```",
    "upper case": "```Python\nx = 1\n```",
    "bare": "```\nx = 1\n```",
    "the last of several": "```python\ny = 2\n```\nbetter:\n```python\nx = 1\n```",
    "another language behind": "```python\nx = 1\n```\nrun it:\n```bash\nls\n```",
    "tildes": "~~~python\nx = 1\n~~~",
    "four backticks around three": "````python\nx = 1\n````",
    "more words in the info": "```python title=x\nx = 1\n```",
    "CRLF": "```python\r\nx = 1\r\n```\r\n",
    "indented fence": "1. here\n   ```python\n   x = 1\n   ```",
    "closing forgotten": "```python\nx = 1\n",
}


@pytest.mark.parametrize("name", FOUND)
def test_the_last_python_fence_is_found(name: str) -> None:
    """However it is written."""
    code = extract_tolerant(FOUND[name], "")
    assert code is not None
    assert code.strip() == "x = 1"


NOT_FOUND = [
    "",
    "x = 1",
    "I cannot help with that.",
    "```bash\nls\n```",
    "```python\n```",
    "```python\n\n \n```",
    "``` `x` ```",
]


@pytest.mark.parametrize("text", NOT_FOUND)
def test_prose_is_never_taken_for_code(text: str) -> None:
    """No fence, an empty one, another language: no answer."""
    assert extract_tolerant(text, "") is None


def test_a_block_cut_at_the_output_limit_is_no_answer() -> None:
    """Not even the draft before it: the model had something else in mind."""
    text = "```python\nx = 1\n```\nno, better:\n```python\nx = "
    assert extract_tolerant(text, "", cut=True) is None
    assert extract_tolerant("```python\nx = 1\n```\nThis wor", "", cut=True) == "x = 1\n"


def test_a_fence_inside_longer_backticks_does_not_end_the_block() -> None:
    """A docstring may hold a fence when the answer's own fence is longer."""
    text = '````python\ns = """\n```\nx\n```\n"""\n````'
    assert extract_tolerant(text, "") == 's = """\n```\nx\n```\n"""\n'


SHIFTS = {
    "as it should be": ("    a\n    b\n", "    a\n    b\n"),
    "dedented": ("a\n  b\n\nc\n", "    a\n      b\n\n    c\n"),
    "half way": ("  a\n    b\n", "    a\n      b\n"),
    "too deep": ("      a\n        b\n", "    a\n      b\n"),
    "first line deeper, dedented": ("  a\nelse:\n  b\n", "      a\n    else:\n      b\n"),
    "text at the left edge": ('    s = """\nx\n"""\n', '    s = """\nx\n"""\n'),
    "tabs": ("\ta\n\tb\n", "\ta\n\tb\n"),
    "nothing": ("", ""),
}


@pytest.mark.parametrize("name", SHIFTS)
def test_a_whole_block_is_shifted_and_nothing_else(name: str) -> None:
    """Relative indentation stays; what is not off by a constant stays."""
    code, expected = SHIFTS[name]
    assert shift_to(code, "    ") == expected


def test_the_upstream_rule_is_the_published_one() -> None:
    """Lower-case python fence, last match, as it is; an unclosed one does not count."""
    assert extract_upstream("```python\n  a\n```\n```python\nb\n```") == "b\n"
    assert extract_upstream("```python\na\n```\n```py\nb\n```") == "a\n"
    assert extract_upstream("```Python\na\n```") is None
    assert extract_upstream("```python\na\n") is None


def solve(reply: Reply, **options: str) -> Solution:
    session, _ = make_session(Talker([reply]), None, paper="prompt", options=options)
    return DirectAgent().solve(PROBLEM, session)


def test_the_code_goes_between_the_markers() -> None:
    """Only there; every annotated file is in the answer."""
    solution = solve(says(text="```python\nreturn sum(values)\n```"))
    assert (solution.stop, solution.steps) == ("answered", 1)
    assert solution.files == {
        "model.py": f"{HEAD}{OPENING}    return sum(values)\n{CLOSING}".encode(),
        "other.py": b"X = 1\n",
    }


def test_strict_takes_the_code_as_it_is() -> None:
    """Parity with the published numbers includes their failures."""
    files = solve(says(text="```python\nreturn sum(values)\n```"), extract="strict").files
    assert files is not None
    assert b"\nreturn sum(values)\n" in files["model.py"]
    with pytest.raises(UsageError, match="tolerant, upstream, strict"):
        solve(says(text=""), extract="best")


@pytest.mark.parametrize("finish", ["stop", "length", "refusal", "content_filter"])
def test_no_code_leaves_the_blank_empty(finish: str) -> None:
    """The stop says so, and the note why."""
    solution = solve(says(text="Sorry.", finish=finish))
    assert (solution.stop, solution.note) == ("no_answer", f"finish: {finish}")
    assert solution.files is not None
    assert solution.files["model.py"] == f"{HEAD}{OPENING}{CLOSING}".encode()


def test_line_endings_and_odd_bytes_of_the_target_survive() -> None:
    """The file that holds the blank is written back byte for byte around it."""
    target = SourceFile("model.py", MODEL.replace("# doc", "# d\udcffc").replace("\n", "\r\n"))
    problem = replace(PROBLEM, files=(target, PROBLEM.files[1]))
    session, _ = make_session(Talker([says(text="```python\nreturn '\ud800'\n```")]), None, paper="none")
    files = DirectAgent().solve(problem, session).files
    assert files is not None
    head = HEAD.replace("# doc", "# d\udcffc").replace("\n", "\r\n").encode("utf-8", "surrogateescape")
    assert files["model.py"].startswith(head + OPENING.encode().replace(b"\n", b"\r\n"))
    assert files["model.py"].count(b"\n") == files["model.py"].count(b"\r\n")


def test_the_prompt_holds_what_the_arm_gives_and_nothing_else() -> None:
    """Paper, declared context with its names and lines, the masked file without markers."""
    content = str(build_prompt(PROBLEM, "prompt")["content"])
    assert "The mean costs $n additions." in content
    assert '<file path="helper.py">\ndef helper():\n    return 1\n</file>' in content
    assert "needed.py" not in content
    assert PROBLEM.prompt_target in content
    assert "paper2code name" not in content
    assert "\nTask: sample/mean of values\n" in content
    bare = str(build_prompt(PROBLEM, "none")["content"])
    assert "additions" not in bare
    assert "paper2code_paper" not in bare


def test_a_paper_file_without_files_is_refused() -> None:
    """Direct has no workspace to put it in."""
    with pytest.raises(UsageError, match="paper=prompt"):
        build_prompt(PROBLEM, "file")


def test_the_blanks_indentation_is_that_of_its_todo() -> None:
    """The markers may stand elsewhere."""
    assert blank_indentation(PROBLEM) == "    "
