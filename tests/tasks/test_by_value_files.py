"""Guards: a class whose objects go to the candidate by value, and whose file is not there, or is the answer."""

import pytest

from rcb_agent.environments.workspace import exported_files
from rcb_agent.tasks.suites import load_suite
from tests.tasks.conftest import WriteSuite

OWN = "grading:\n  flows: no, the network is the tests' own\n  by_value: [{}]\n"
FILES: dict[str, str | bytes] = {
    "good/rcb-agent.yaml": OWN.format("nets.small.Net"),
    "good/nets/small.py": "from nets.parts import Part\n\nclass Net(Part):\n    pass\n",
    "good/nets/parts.py": "class Part:\n    pass\n",
    "good/other.py": "class Other:\n    pass\n",
}


def test_the_file_of_a_class_that_goes_by_value_is_on_both_sides(write_suite: WriteSuite) -> None:
    """With what it imports, and in the workspace, since the code is made to work with it; nothing else comes along."""
    task = load_suite(str(write_suite(FILES))).tasks[0]
    assert {"nets/small.py", "nets/parts.py"} <= set(task.answer.shared_bytes)
    assert {"nets/small.py", "nets/parts.py"} <= exported_files(task.problem, "none").keys()
    assert "other.py" not in task.answer.shared_bytes
    without = load_suite(str(write_suite({**FILES, "good/rcb-agent.yaml": ""}))).tasks[0]
    assert not {"nets/small.py", "nets/parts.py"} & without.answer.shared_bytes.keys()


def test_a_file_that_holds_the_answer_is_withheld_from_agents(write_suite: WriteSuite) -> None:
    """As any support file is."""
    suite = write_suite(
        {**FILES, "good/nets/small.py": "class Net:\n    def f(x):\n        y = x + x\n        return y\n"}
    )
    task = load_suite(str(suite)).tasks[0]
    assert "nets/small.py" not in exported_files(task.problem, "none")


@pytest.mark.parametrize("name", ["model_ref.Net", "paper2code_test.Net"])
def test_a_reference_never_goes_to_the_candidate_for_its_class(write_suite: WriteSuite, name: str) -> None:
    """The candidate's process could read it."""
    files = {**FILES, "good/rcb-agent.yaml": OWN.format(name), "good/model_ref.py": "class Net:\n    pass\n"}
    suite = load_suite(str(write_suite(files)))
    assert [str(fault).partition(" is a hidden")[1] for fault in suite.faults] == [" is a hidden"]
    assert not suite.tasks
