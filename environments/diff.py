"""Unified diffs of untrusted bytes, in time that no input can blow up.

Lines end at a line feed and nowhere else. Bytes that are not UTF-8 are kept as surrogate escapes, so
``diff.encode("utf-8", "surrogateescape")`` is the exact patch.
"""

from collections.abc import Iterator, Mapping
from difflib import SequenceMatcher

NO_NEWLINE = "\\ No newline at end of file"
MOST_PAIRS = 2_000_000  # of lines to compare; beyond that the changed middle is shown as replaced whole

Operation = tuple[str, int, int, int, int]


class Comparison(SequenceMatcher[str]):
    """Borrows the grouping into hunks; the comparing is done by ``compare``."""

    def __init__(self, old: list[str], new: list[str]) -> None:
        super().__init__(None, (), ())
        self.old, self.new = old, new

    def get_opcodes(self) -> list[Operation]:  # type: ignore[override]  # the literal tags say nothing here
        """What turns the old lines into the new ones."""
        return compare(self.old, self.new)


def unified_diff(
    given: Mapping[str, bytes], left: Mapping[str, bytes | None], *, kinds: Mapping[str, str] | None = None
) -> str:
    """Return one diff over all given files; ``left`` None is a file that is gone or, by ``kinds``, no file now."""
    parts: list[str] = []
    for path, before in given.items():
        after = left.get(path)
        kind = (kinds or {}).get(path, "missing")
        if after is None and kind not in ("file", "missing"):
            parts.append(f"# {path} is not shown: {kind.replace('_', ' ')}\n")
        elif after != before:
            parts += file_diff(path, before, after)
    return "".join(parts)


def file_diff(path: str, before: bytes, after: bytes | None) -> Iterator[str]:
    """The diff of one file, line by line."""
    old = split_lines(before)
    new = split_lines(after or b"")
    yield f"--- a/{path}\n"
    yield "+++ /dev/null\n" if after is None else f"+++ b/{path}\n"
    for group in Comparison(old, new).get_grouped_opcodes(3):
        first, last = group[0], group[-1]
        yield f"@@ -{span(first[1], last[2])} +{span(first[3], last[4])} @@\n"
        for tag, old_start, old_end, new_start, new_end in group:
            if tag == "equal":
                yield from (shown(" ", line) for line in old[old_start:old_end])
                continue
            yield from (shown("-", line) for line in old[old_start:old_end])
            yield from (shown("+", line) for line in new[new_start:new_end])


def split_lines(data: bytes) -> list[str]:
    """Lines with their line feeds."""
    lines = data.decode("utf-8", "surrogateescape").split("\n")
    last = lines.pop()
    return [line + "\n" for line in lines] + ([last] if last else [])


def shown(mark: str, line: str) -> str:
    """One line of a hunk; a missing line feed at the end of the file is said as ``patch`` expects it."""
    return f"{mark}{line}" if line.endswith("\n") else f"{mark}{line}\n{NO_NEWLINE}\n"


def span(start: int, end: int) -> str:
    """A range of lines as hunk headers write it."""
    length = end - start
    if length == 1:
        return str(start + 1)
    return f"{start if length == 0 else start + 1},{length}"


def compare(old: list[str], new: list[str]) -> list[Operation]:
    """Return what turns ``old`` into ``new``; only the part between common ends is really compared."""
    shortest = min(len(old), len(new))
    head = next((index for index in range(shortest) if old[index] != new[index]), shortest)
    room = shortest - head
    tail = next((index for index in range(room) if old[-1 - index] != new[-1 - index]), room)
    old_end, new_end = len(old) - tail, len(new) - tail
    operations: list[Operation] = [("equal", 0, head, 0, head)] if head else []
    if head < old_end or head < new_end:
        operations += compare_middle(old[head:old_end], new[head:new_end], head)
    if tail:
        operations.append(("equal", old_end, len(old), new_end, len(new)))
    return operations


def compare_middle(old: list[str], new: list[str], offset: int) -> list[Operation]:
    """Compare what differs at both ends."""
    if len(old) * len(new) > MOST_PAIRS:
        return [("replace", offset, offset + len(old), offset, offset + len(new))]
    found = SequenceMatcher(None, old, new).get_opcodes()
    return [(tag, a + offset, b + offset, c + offset, d + offset) for tag, a, b, c, d in found]
