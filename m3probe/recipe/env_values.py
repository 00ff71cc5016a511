"""Values of environment variables that keep an engine from starting, whether or not their feature is on.

At the end of its set-up an engine reads every registered variable once (``enable_envs_cache`` of ``envs.py``, called by
``EngineCore.__init__``; 0.24, 0.25.1, 0.32, 0.33): a text that ``int()`` does not take raises there at the latest. An
empty text is a value too: ``-e NAME=`` is not the default.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from m3probe.schema.setup import Setup

_AT_START = "the engine does not start (ValueError; vLLM reads every variable at start)"
_LONGEST = 80  # of a value in a sentence


def refused(setup: Setup, origins: Mapping[str, str], told: Iterable[str] = ()) -> tuple[str, ...]:
    """One sentence for each variable whose value raises; none where the build's variables are not known.

    Args:
        origins: where each variable was set.
        told: sentences that are there already; a variable that one of them shows with this value is left out.
    """
    said = "\n".join(told)
    found = []
    for name, value in setup.env.items():
        why = _fault(setup, name, value)
        if not why or name in setup.uncertain or f"{name}={value!r}" in said:
            continue
        where = f"; set in {origins[name]}" if origins.get(name) else ""
        found.append(f"{name}={value[:_LONGEST]!r} {why}: {_AT_START}{where}")
    return tuple(found)


def _fault(setup: Setup, name: str, value: str) -> str:
    """What is wrong with a value; empty where nothing is, or nothing is known of the variable."""
    for rule, convert in (("env_int", int), ("env_float", float)):
        if name in _value(setup, rule, []) and not _takes(convert, value):
            return f"is read by {convert.__name__}()"
    choice = _value(setup, "env_choices", {}).get(name)
    return _no_choice(choice, value) if choice else ""


def _value(setup: Setup, rule: str, default: Any) -> Any:
    found = setup.build.rule(rule)
    return found.value if found.known and found.value else default


def _takes(convert: Callable[[str], float], value: str) -> bool:
    try:
        convert(value)
    except ValueError:
        return False
    return True


def _no_choice(choice: Mapping[str, Any], value: str) -> str:
    """One word is compared as it stands; of a list blanks and empty words are taken off, and an empty one is unset."""
    words = [word.strip() for word in value.split(",") if word.strip()] if choice["many"] else [value]
    known = choice["words"] if choice["case"] else [word.lower() for word in choice["words"]]
    wrong = [word for word in words if (word if choice["case"] else word.lower()) not in known]
    if not wrong:
        return ""
    return f"is none of {', '.join(choice['words'])}{' (the case counts)' if choice['case'] else ''}"
