"""``--require PATH[:phase]``: is the path eligible at every point of the workload?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches

from m3probe.errors import UsageError
from m3probe.model.recipe_report import AtPoint, PathLine
from m3probe.schema.setup import Held, State
from m3probe.schema.verdicts import Phase

MOST = 200


def required(
    wanted: Sequence[str], paths: Mapping[str, PathLine], stopped: Sequence[str], loose: str = ""
) -> tuple[tuple[str, bool, str], ...]:
    """(what was required, whether it holds, why).

    Args:
        stopped: why the engine would not start: then nothing holds.
        loose: why the command may hold flags that are not known: then nothing is proven.

    Raises:
        UsageError: an unknown path or phase, or a phase that the path never runs in.
    """
    if len(wanted) > MOST:
        raise UsageError(f"--require was given {len(wanted):,} times", next_move=f"At most {MOST} are taken")
    judged = tuple((text, *_held(text, paths, stopped)) for text in dict.fromkeys(wanted))
    return tuple(
        (text, False, f"unproven: {loose}") if held and loose else (text, held, why) for text, held, why in judged
    )


def _held(text: str, paths: Mapping[str, PathLine], stopped: Sequence[str]) -> tuple[bool, str]:
    name, _, phase = text.partition(":")
    line = paths.get(name)
    if line is None:
        raise UsageError(f"--require {text[:80]}: no such fast path", next_move=nearest(name[:80], paths))
    at = _at(line, text, phase)
    if stopped:
        return False, f"the engine would not start: {stopped[0]}"
    if line.state == State.OFF:
        return False, f"off: {line.asked}"
    failed = [found for found in at if found.state != State.ELIGIBLE]
    if failed:
        return False, _why(failed[0])
    return True, f"eligible at {len(at)} point{'s' * (len(at) > 1)} of the workload"


def nearest(name: str, paths: Iterable[str]) -> str:
    """Names that hold the word, else the one most like it, else all of them."""
    paths = list(paths)
    near = [path for path in paths if len(name) > 2 and name in path] or get_close_matches(name, paths, n=1)
    return f"Did you mean {' or '.join(near)}?" if near else f"Known are {', '.join(paths)}"


def _at(line: PathLine, text: str, phase: str) -> list[AtPoint]:
    known = [str(p) for p in (Phase.PREFILL, Phase.DECODE)]
    if phase and phase not in known:
        raise UsageError(
            f"--require {text[:80]}: {phase[:40]!r} is no phase", next_move=f"Phases are {' and '.join(known)}"
        )
    if phase and phase not in line.by_phase:
        raise UsageError(
            f"--require {text}: {line.title} never runs in {phase}",
            next_move=f"Its phases are {', '.join(line.by_phase)}",
        )
    return [found for found in line.at if not phase or found.point.phase == phase]


def _why(found: AtPoint) -> str:
    reasons = [n.text for n in found.needs if n.held == Held.NO] or [n.text for n in found.needs if n.held != Held.YES]
    return f"{found.point.label}: {found.state.replace('_', ' ')}: {'; '.join(reasons)}"
