"""The reference of Even Lines: every breaking is written down and weighed."""


def all_breakings(tokens):
    """Every way to cut a list into runs."""
    if not tokens:
        return [[]]
    found = []
    for size in range(1, len(tokens) + 1):
        for rest in all_breakings(tokens[size:]):
            found.append([tokens[:size]] + rest)
    return found


def left_over(run, columns):
    return columns - len(" ".join(run))


def weigh(run, columns, closing):
    room = left_over(run, columns)
    if closing:
        excess = room - int(columns * 2 / 3 + 1e-9)
        return excess * excess if excess > 0 else 0
    fee = columns if len(run[-1]) in (1, 2) else 0
    return room * room + fee


def breaking(text, columns):
    tokens = text.split()
    fitting = [runs for runs in all_breakings(tokens) if all(left_over(run, columns) >= 0 for run in runs)]

    def rank(runs):
        total = sum(weigh(run, columns, position == len(runs) - 1) for position, run in enumerate(runs))
        return total, [-len(run) for run in runs]

    return min(fitting, key=rank)


def fill(run, columns, from_right):
    widths = [1] * (len(run) - 1)
    turn = 0
    while widths and sum(widths) + sum(map(len, run)) < columns:
        place = turn % len(widths)
        widths[-1 - place if from_right else place] += 1
        turn += 1
    pieces = [run[0]]
    for blank, token in zip(widths, run[1:]):
        pieces.append(" " * blank + token)
    return "".join(pieces)
