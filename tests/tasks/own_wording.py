"""A suite with a prompt of its authors, in words of ours: the form of the benchmark's code, nothing of its content."""

from collections.abc import Mapping

from rcb_agent.tasks.upstream_prompt import ASKS, MASKS

ASKING = '''\
raise SystemExit("this file is read, never run")

async def run_inference(masked_code_str, paper_tex, llm_type, clients=None, wo_paper=False):
    with_head = f"""READ {paper_tex}
THEN """
    bare_head = f"""ONLY """
    rest = f"""FILL <<{masked_code_str}>>
END
"""
    if wo_paper:
        prompt = bare_head + rest
    else:
        prompt = with_head + rest
    return await clients.run(llm_type=llm_type, user_message=prompt)
'''

MASKING = """\
raise SystemExit("this file is read, never run")

class File:
    def build_replaced_code(self, snippet):
        num_lines = self.count(snippet)
        placeholder_lines = [f"# MISSING: {snippet.name}", f"# {num_lines} LINES"]
        return self.put(placeholder_lines)
"""

PAPERS = """\
- id: good
  title: A good paper
  venue: Test 2026
  annotated_file_paths: model.py
  context_file_paths: [helper.py, more.py]
"""

MODEL = """\
def double(x):
\tif x:
\t\t# <paper2code name="double it">
\t\t# twice
\t\ty = x + x
\t# <paper2code name="give it back">

\t\treturn y
\t# </paper2code name="give it back">
\t\t# </paper2code name="double it">
\treturn 0
"""

SUITE: Mapping[str, str | bytes] = {
    "papers.yaml": PAPERS,
    "good/model.py": MODEL,
    "good/helper.py": "A = 1\nB = 2\x0cC = 3\n",
    "good/more.py": '# <paper2code name="elsewhere">\nD = 4\n# </paper2code name="elsewhere">\n',
    "good/paper2code_paper.md": b"# Doubling\r\n\r\nTwice {x}.\r\n",
    "good/rcb-agent.yaml": "runtime: mini\n",
    f"../{ASKS}": ASKING,
    f"../{MASKS}": MASKING,
}
