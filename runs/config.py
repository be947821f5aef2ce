"""What a run is: arms, tasks, attempts, sandbox. Two configs with one hash are the same run and may be resumed.

Concurrency and display are no part of it: they cannot change a result.
"""

import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from rcb_agent import __version__
from rcb_agent.errors import UsageError
from rcb_agent.runs.base import Arm, Json, TrialSpec
from rcb_agent.runs.showing import CONTEXTS
from rcb_agent.tasks.base import Task
from rcb_agent.tasks.suites import NAMED, find_suite

DEFAULT_MODEL = "scripted/demo"


@dataclass(frozen=True, slots=True)
class RunConfig:
    """Everything that can change a result, as it stands in ``run.json`` under ``config``."""

    suite: str
    suite_digest: str
    tasks: tuple[str, ...]
    arms: tuple[Arm, ...]
    attempts: int
    sandbox: str
    limits: Mapping[str, Any]
    runtimes: Mapping[str, str]
    grader: str
    prompts: str
    code: str
    mode: str = "split"
    scopes: tuple[str, ...] = ("diff", "blank")
    harness: str = __version__
    pythons: Mapping[str, str] = field(default_factory=dict)
    container: Mapping[str, Any] = field(default_factory=dict)
    salt: str = ""
    """Hash of the secret by which seeds are salted; "" = they are not."""
    shims: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Runtime -> files of ours that lie beside its packages, by name and hash."""

    def as_json(self) -> Json:
        """Return the record form."""
        record = asdict(self)
        record["arms"] = [arm.as_json() for arm in self.arms]
        for name in ("salt", "shims"):  # without them a run is as it was before they were
            if not record[name]:
                del record[name]
        return json.loads(json.dumps(record))  # type: ignore[no-any-return]

    @property
    def hash(self) -> str:
        """SHA-256 over the record form."""
        return hash_config(self.as_json())

    def trials(self) -> Iterable[TrialSpec]:
        """Yield every trial: attempts outermost, so that an interrupted run has whole attempts first."""
        for attempt in range(1, self.attempts + 1):
            for place, task in enumerate(self.tasks):
                turn = place + attempt - 1
                for arm in self.arms:
                    conditions = (self.sandbox, self.limits, self.pythons, self.container)
                    yield TrialSpec(arm, self.suite, task, attempt, *conditions, turn)


def hash_config(record: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a config record, whatever the order of its keys."""
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()


def differing_keys(old: Any, new: Any, prefix: str = "") -> list[str]:
    """Name the keys in which two config records differ, dotted, each with both values when they are short."""
    if isinstance(old, dict) and isinstance(new, dict):
        keys = sorted(old.keys() | new.keys())
        return [line for key in keys for line in differing_keys(old.get(key), new.get(key), f"{prefix}{key}.")]
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return [
            line for i, pair in enumerate(zip(old, new, strict=True)) for line in differing_keys(*pair, f"{prefix}{i}.")
        ]
    if old == new:
        return []
    name, was, now = prefix.rstrip("."), json.dumps(old), json.dumps(new)
    return [f"{name} ({was} -> {now})" if len(was) + len(now) < 80 else name]


@dataclass(frozen=True, slots=True)
class ArmOptions:
    """What the command line says about arms; the fields of ``common`` hold for all of them. ``made`` arms stand instead."""

    agents: Sequence[str] = ()
    models: Sequence[str] = ()
    arms: Sequence[str] = ()
    common: Mapping[str, Any] = field(default_factory=dict)
    made: tuple[Arm, ...] = ()


def build_arms(options: ArmOptions) -> tuple[Arm, ...]:
    """Cross agents and models, add the explicit arms. Raises UsageError for unknown words and equal ids."""
    if options.made:
        return options.made
    models = list(options.models) or [DEFAULT_MODEL]
    agents = list(options.agents) or ([] if options.arms else ["react"])
    wanted = [{"agent": agent, "model": model} for agent in agents for model in models]
    for text in options.arms:
        parsed = parse_arm(text)
        wanted += [parsed] if "model" in parsed else [{**parsed, "model": model} for model in models]
    wanted = _drop_unused_models(wanted)
    narrowed = [{**_that_apply(options.common, fields["agent"]), **fields} for fields in wanted]
    for name in _OF_DRAFTS & options.common.keys():
        if options.common[name] is not None and not any(name in fields for fields in narrowed):
            word = name.replace("_", "-")
            raise UsageError(f"--{word}: is for best-of-n and self-repair, which are not among these agents")
    arms = make_arms(narrowed)
    if not any(arm.tools for arm in arms) and {"tools", "without"} & options.common.keys():
        raise UsageError("--tools and --without: none of these agents has tools")
    return arms


def make_arms(wanted: Iterable[dict[str, Any]]) -> tuple[Arm, ...]:
    """Make an arm of each set of fields. Raises UsageError for what does not fit and for equal ids."""
    arms = [_make_arm(fields) for fields in wanted]
    ids = [arm.id for arm in arms]
    if doubles := sorted({one for one in ids if ids.count(one) > 1}):
        raise UsageError(f"two arms are called {doubles[0]!r}: give one a name with --arm '...,name=...'")
    return tuple(arms)


_OF_DRAFTS = {"feedback", "n", "match_budget", "match_by"}
"""Options that hold for the arms that draft, whatever other arms are beside them; --arm says them for one arm."""


def _that_apply(common: Mapping[str, Any], agent: str) -> dict[str, Any]:
    from rcb_agent.agents.registry import default_feedback, load_agent
    from rcb_agent.runs.controls import CONTROLS

    drafts = agent not in CONTROLS and default_feedback(load_agent(agent)) is not None
    return {name: value for name, value in common.items() if drafts or name not in _OF_DRAFTS}


def _drop_unused_models(wanted: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Who asks no model is there once: crossing it with several would only repeat it."""
    from rcb_agent.agents.registry import NO_MODEL, asks_model, load_agent
    from rcb_agent.runs.controls import CONTROLS

    kept: list[dict[str, Any]] = []
    for fields in wanted:
        asks = fields["agent"] not in CONTROLS and asks_model(load_agent(fields["agent"]))
        entry = fields if asks else {**fields, "model": NO_MODEL}
        if entry["model"] != "none" or entry not in kept:
            kept.append(entry)
    return kept


_LONGEST_ID = 80
_SLUG = re.compile(rf"[A-Za-z0-9@_-][A-Za-z0-9@._-]{{0,{_LONGEST_ID - 1}}}")
_TEXT = (
    *("model", "name", "paper", "context", "feedback", "prompt", "extract"),
    *("reasoning-effort", "price", "tool-protocol", "match-budget", "match-by"),
)
_LISTS = ("tools", "without", "cheats")
_NUMBERS = {
    "max-steps": int,
    "max-seconds": float,
    "temperature": float,
    "max-output-tokens": int,
    "top-p": float,
    "seed": int,
    "max-tokens": int,
    "max-cost": float,
    "n": int,
}


def parse_arm(text: str) -> dict[str, Any]:
    """Read ``react,without=run_tests,name=blind`` (lists with ``+``). Raises UsageError naming the bad part."""
    head, *rest = [part.strip() for part in text.split(",")]
    agent, at, model = head.partition("@")
    if not agent or "=" in head:
        raise UsageError(f"--arm {text!r}: begin with an agent, for instance 'react,without=run_tests,name=blind'")
    fields: dict[str, Any] = {"agent": agent} | ({"model": model} if at else {})
    for part in rest:
        key, equals, value = part.partition("=")
        key = key.replace("_", "-")
        if not equals or not value:
            raise UsageError(f"--arm {text!r}: {part!r} is not key=value")
        fields[key.replace("-", "_")] = _arm_value(text, key, value)
    return fields


def _arm_value(text: str, key: str, value: str) -> Any:
    if key in _TEXT:
        return value
    if key in _LISTS:
        return [item for item in value.split("+") if item]
    if key not in _NUMBERS:
        known = ", ".join([*_TEXT, *_LISTS, *_NUMBERS])
        raise UsageError(f"--arm {text!r}: no key {key!r}; known: {known}")
    if key == "temperature" and value == "none":
        return None
    try:
        return _NUMBERS[key](value)
    except ValueError:
        raise UsageError(f"--arm {text!r}: {key} needs a number, not {value!r}") from None


def _make_arm(fields: dict[str, Any]) -> Arm:
    from rcb_agent.agents.registry import PROTOCOLS, load_agent, select_tools, uses_tools
    from rcb_agent.runs.controls import CONTROLS

    name = fields["agent"]
    control = name in CONTROLS
    agent = None if control else load_agent(name)
    has_tools, many_steps = uses_tools(agent), takes_many_steps(agent)
    paper = "none" if agent is None else fields.get("paper") or agent.default_paper
    reads_no_file = agent is not None and not (agent.uses_workspace and (has_tools or not many_steps))
    if reads_no_file and paper == "file":
        raise UsageError(f"agent {name} has no workspace to read a paper file in: use --paper prompt or --paper none")
    model = fields["model"]
    return Arm(
        id=_check_id(fields.get("name") or default_arm_id(name, model)),
        agent=name,
        model=model,
        tools=select_tools(fields.get("tools"), fields.get("without") or ()) if has_tools else (),
        paper=_check_choice("paper", paper, ("prompt", "file", "none")),
        prompt="standard" if control else _check_prompt(name, fields.get("prompt") or "standard"),
        context="full" if control else _check_context(fields),
        feedback=_check_feedback(agent, name, fields.get("feedback")),
        max_steps=_at_least("max-steps", fields.get("max_steps", 30), 1) if many_steps else 1,
        max_seconds=_at_least("max-seconds", fields.get("max_seconds", 900.0), 0.001),
        temperature=_finite("temperature", fields.get("temperature", 0.0)),
        max_output_tokens=_at_least_or_none("max-output-tokens", fields.get("max_output_tokens"), 1),
        top_p=_at_least_or_none("top-p", fields.get("top_p"), 0.0),
        seed=fields.get("seed"),
        reasoning_effort=fields.get("reasoning_effort"),
        max_tokens=_at_least_or_none("max-tokens", fields.get("max_tokens"), 1),
        max_cost=_above_zero("max-cost", fields.get("max_cost")),
        price=_price(fields.get("price")),
        tool_protocol=_check_choice("tool-protocol", fields.get("tool_protocol") or "auto", PROTOCOLS),
        match=_matched_budget(name, fields) if many_steps else {},
        options=_agent_options(agent, fields),
    )


def takes_many_steps(agent: Any) -> bool:
    """Say whether an agent may ask its model more than once: whether it has tools, or drafts."""
    from rcb_agent.agents.registry import default_feedback, uses_tools

    return uses_tools(agent) or default_feedback(agent) is not None


def _check_context(fields: Mapping[str, Any]) -> str:
    context = _check_choice("context", fields.get("context") or "full", CONTEXTS)
    if context == "target" and fields.get("prompt") == "upstream":
        raise UsageError("--context target: the authors' own prompt has its context files; use --prompt standard")
    return context


def _check_feedback(agent: Any, name: str, wanted: str | None) -> str:
    from rcb_agent.agents.base import FEEDBACKS
    from rcb_agent.agents.registry import default_feedback

    usual = default_feedback(agent)
    kind = _check_choice("feedback", wanted or usual or "none", FEEDBACKS)
    if usual is None and kind != "none":
        raise UsageError(
            f"--feedback {kind}: {name} takes none; best-of-n and self-repair do, react has run_tests for it"
        )
    return kind


MATCHES = ("tokens", "dollars", "steps")


def _matched_budget(name: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is to be matched, not looked up yet (see ``runs.matching``)."""
    by = fields.get("match_by")
    source = fields.get("match_budget")
    if not source:
        if by:
            raise UsageError(f"--match-by {by}: for {name} no budget is matched: give --match-budget RUN:ARM too")
        return {}
    return {"source": source, "by": _check_choice("match-by", by or MATCHES[0], MATCHES)}


PROMPTS = ("standard", "upstream")


def _check_prompt(agent: str, wording: str) -> str:
    if _check_choice("prompt", wording, PROMPTS) == "upstream" and agent != "direct":
        raise UsageError(
            f"--prompt upstream is one question without tools: only the agent direct takes it, not {agent}"
        )
    return wording


def _agent_options(agent: Any, fields: Mapping[str, Any]) -> dict[str, Any]:
    from rcb_agent.agents.cheater import choose_cheats
    from rcb_agent.agents.extraction import EXTRACTIONS
    from rcb_agent.agents.registry import default_feedback

    if fields.get("cheats") and not is_cheater(agent):
        raise UsageError("--cheats are for the agent cheater only")
    if is_cheater(agent):
        return {"cheats": list(choose_cheats(fields.get("cheats") or ()))}
    drafts = default_feedback(agent) is not None
    if fields.get("n") is not None and not drafts:
        raise UsageError("--n is the number of drafts of best-of-n and self-repair, which none of these agents makes")
    if agent is None or (agent.uses_workspace and not drafts):
        return {}
    chosen = _check_choice("extract", fields.get("extract") or "tolerant", EXTRACTIONS)
    extract = {"extract": "upstream" if chosen == "strict" else chosen}
    return {**extract, "n": _count_drafts(agent, fields)} if drafts else extract


def _count_drafts(agent: Any, fields: Mapping[str, Any]) -> int | None:
    """Return how many drafts are made; None = until the budget ends, which a matched one is there for."""
    given = fields.get("n")
    if given is not None:
        return int(_at_least("n", given, 1))
    return None if fields.get("match_budget") else getattr(agent, "default_drafts", None)


def is_cheater(agent: Any) -> bool:
    """Say whether an agent, by whatever path it was loaded, is the one that cheats."""
    return getattr(agent, "name", "") == "cheater"


def cheats_of(arm: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the cheats of an arm as recorded; none says that the arm is no cheater's."""
    return tuple(arm["options"].get("cheats", ()))


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> str:
    if value not in choices:
        raise UsageError(f"--{name} {value!r}: choose {', '.join(choices)}")
    return value


def _at_least_or_none(name: str, value: Any, least: float) -> Any:
    return None if value is None else _at_least(name, value, least)


def _above_zero(name: str, value: float | None) -> float | None:
    """A cap of 0 is reached before the first call: nothing would be asked, and every trial would fail."""
    if value == 0:
        raise UsageError(f"--{name} 0: ends every trial before its first call: give more than 0, or leave it out")
    return _finite(name, value)


def _price(text: str | None) -> tuple[float, float] | None:
    """Read ``IN,OUT`` (``IN+OUT`` within --arm): dollars per million tokens."""
    if text is None:
        return None
    try:
        sent, made = (float(part) for part in text.replace("+", ",").split(","))
    except ValueError:
        raise UsageError(f"--price {text!r}: say IN,OUT in dollars per million tokens, for instance 2.5,10") from None
    if not (math.isfinite(sent + made) and sent >= 0 and made >= 0):
        raise UsageError(f"--price {text!r}: both must be at least 0")
    return sent, made


def _finite(name: str, value: float | None) -> float | None:
    if value is not None and not (math.isfinite(value) and value >= 0):
        raise UsageError(f"--{name} must be a number of at least 0, not {value:g}")
    return value


def _check_id(name: str) -> str:
    if not _SLUG.fullmatch(name):
        raise UsageError(f"arm name {name!r}: it names files, so use letters, digits and @ . _ - only, not first a dot")
    return name


def _at_least(name: str, value: Any, least: float) -> Any:
    if not value >= least:  # not a number is not at least anything
        raise UsageError(f"--{name} must be at least {least:g}, not {value:g}")
    return value


def default_arm_id(agent: str, model: str) -> str:
    """``<agent>@<model>`` with every character that does not belong in a file name replaced by a dash.

    A long one (a module's path, a file of replies) is cut and told apart by a hash.
    """
    text = agent if model == "none" else f"{agent}@{model}"
    clean = "".join(c if c.isascii() and (c.isalnum() or c in "@._-") else "-" for c in text).strip(".-")
    if len(clean) <= _LONGEST_ID:
        return clean
    return f"{clean[: _LONGEST_ID - 7]}-{hashlib.sha256(text.encode()).hexdigest()[:6]}"


def suite_label(name: str) -> str:
    """Return how a suite is named in a config: a name of ours, or the absolute path of a folder."""
    return name if name in NAMED else str(find_suite(name))


def digest_tasks(tasks: Sequence[Task]) -> str:
    """Hash the content of the tasks a run is about."""
    return hashlib.sha256("\n".join(f"{task.id} {task.digest}" for task in tasks).encode()).hexdigest()
