"""Named sets of options. What a preset fixes cannot be said otherwise beside it; the rest stays open."""

from collections.abc import Collection, Mapping
from typing import Any

from rcb_agent.errors import UsageError

PRESETS: Mapping[str, Mapping[str, Any]] = {
    "paper": {
        "agents": ("direct",),
        "prompt": "upstream",
        "extract": "upstream",
        "grading": "upstream",
        "temperature": 0.0,
        "attempts": 1,
    }
}
_WORDS = {"agents": "agent", "arms": "arm"}


def apply_preset(options: Mapping[str, Any], given: Collection[str]) -> dict[str, Any]:
    """Return the options with a preset's in place; ``given`` names those on the command line. Raises UsageError."""
    name = options.get("preset")
    if name is None:
        return dict(options)
    fixed = PRESETS[name]
    against = [key for key, value in fixed.items() if key in given and options[key] != value]
    against += ["arms"] if options["arms"] else []
    if against:
        said = ", ".join(f"--{_WORDS.get(key, key)}" for key in against)
        raise UsageError(f"--preset {name} is {_describe(fixed)}: leave out {said}, or the preset")
    return {**options, **{key: value for key, value in fixed.items() if key in options}}


def _describe(fixed: Mapping[str, Any]) -> str:
    words = ((_WORDS.get(key, key), value[0] if isinstance(value, tuple) else value) for key, value in fixed.items())
    return " ".join(f"--{key} {value:g}" if isinstance(value, float) else f"--{key} {value}" for key, value in words)
