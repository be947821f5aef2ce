"""Even lines: breaks a paragraph so that its lines are as even as its words allow."""

STUB = 2


class WidthError(ValueError):
    """A word is longer than a line."""


def free_columns(words, width):
    """Columns that a line of these words leaves free, with one space between two words."""
    return width - sum(len(word) for word in words) - (len(words) - 1)


def penalty(words, width, last):
    """How bad a line of these words is; they must fit. ``last`` says that the paragraph ends with it."""
    # <paper2code name="penalty of a line">
    free = free_columns(words, width)
    if last:
        return max(free - 2 * width // 3, 0) ** 2
    cost = free**2
    # <paper2code name="fee for a stub">
    if len(words[-1]) <= STUB:
        cost += width
    # </paper2code name="fee for a stub">
    return cost
    # </paper2code name="penalty of a line">


def break_lines(text, width):
    """The lines of a paragraph, each a list of words."""
    words = text.split()
    # <paper2code name="best breaking">
    if any(len(word) > width for word in words):
        raise WidthError(f"a word is longer than {width} columns")
    best = {len(words): (0, [])}
    for start in reversed(range(len(words))):
        for end in range(start + 1, len(words) + 1):
            line = words[start:end]
            if free_columns(line, width) < 0:
                break
            # <paper2code name="choice between breakings">
            cost = penalty(line, width, end == len(words)) + best[end][0]
            if start not in best or cost <= best[start][0]:
                best[start] = (cost, [line, *best[end][1]])
            # </paper2code name="choice between breakings">
    return best[0][1]
    # </paper2code name="best breaking">


def justify(words, width, flip):
    """One line as text that fills its width; ``flip`` puts the wider gaps on the right."""
    gaps = len(words) - 1
    if gaps == 0:
        return words[0]
    # <paper2code name="spread of spaces">
    each, extra = divmod(free_columns(words, width), gaps)
    wide = range(gaps - extra, gaps) if flip else range(extra)
    spaces = [" " * (1 + each + (gap in wide)) for gap in range(gaps)]
    return words[0] + "".join(space + word for space, word in zip(spaces, words[1:]))
    # </paper2code name="spread of spaces">
