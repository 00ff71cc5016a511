"""How far a path gets on paper: off -> configured -> eligible, with every refusal and its number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from m3probe.schema.paths import Anchor, Asked, FastPath, Need, When
from m3probe.schema.setup import Held, Met, Point, Setup, State, Watched

_NAMED = 6
CPU = "cpu"
"""``Setup.gfx`` of a server that a recording says runs on a CPU."""


@dataclass(frozen=True, slots=True)
class Judged:
    """One need and its answer."""

    need: Need
    answer: Met


@dataclass(frozen=True, slots=True)
class PathState:
    """One path at one point: its state, why it is asked for, every need with its answer."""

    state: State
    asked: str
    judged: tuple[Judged, ...]

    def of(self, held: Held) -> tuple[str, ...]:
        """Texts of the needs with one answer."""
        return tuple(j.answer.text for j in self.judged if j.answer.held is held)


def state_at(path: FastPath, setup: Setup, point: Point) -> PathState:
    """Judge one path at one point.

    Refusals are all kept: the first is not the only one a user has to lift. An unknown need leaves the
    path unknown only where nothing refuses it. What hangs on a setting that the input leaves open is unproven.
    """
    if not setup.uncertain:
        return _other_model(path, setup) or _settled(path, setup, point)
    seen: set[str] = set()
    watched = replace(
        setup, env=Watched(setup.env, setup.uncertain, seen), flags=Watched(setup.flags, setup.uncertain, seen)
    )
    found = _other_model(path, watched) or _settled(path, watched, point)
    if not seen:
        return found
    more = f" and {len(seen) - _NAMED} more" if len(seen) > _NAMED else ""
    told = f"{', '.join(sorted(seen)[:_NAMED])}{more} hangs on a condition or an unknown value of the input"
    return PathState(State.UNPROVEN, f"{found.asked}; {told}" if found.asked else told, found.judged)


def in_force(asked: Asked, needs: Sequence[Need], setup: Setup, point: Point) -> bool:
    """Whether a setup selects an implementation for certain: asked for, and each need met."""
    return asked.state is Held.YES and all(_answer(need, setup, point).held is Held.YES for need in needs)


def _other_model(path: FastPath, setup: Setup) -> PathState | None:
    """A path of MiniMax M3's model files on another model; None where it may run."""
    model = setup.model
    if not path.only_m3 or model.is_minimax_m3:
        return None
    if model.hidden_size is None:
        return PathState(State.UNPROVEN, f"whether {model.name or 'the model'} is MiniMax M3 is not known", ())
    return PathState(State.OFF, f"{model.name or 'this model'} has none: it stands in MiniMax M3's model files", ())


def _settled(path: FastPath, setup: Setup, point: Point) -> PathState:
    asked = path.asked(setup) if path.asked else None
    text = asked.text if asked else ""
    if asked and asked.state is Held.NO:
        return PathState(State.OFF, text, ())
    if setup.gfx == CPU and path.counted_by is Anchor.KERNEL and not path.chooses:
        return PathState(State.OFF, "the server runs on a CPU: no GPU, so not ROCm, and no kernel of it", ())
    judged = tuple(Judged(need, _started(need, _answer(need, setup, point), setup)) for need in path.needs)
    if any(j.answer.held is Held.NO and j.need.when is When.START for j in judged):
        return PathState(State.REFUSED_AT_START, text, judged)
    if any(j.answer.held is Held.NO for j in judged):
        return PathState(State.REFUSED, text, judged)
    unknown = asked is not None and asked.state is Held.UNKNOWN
    if unknown or any(j.answer.held is Held.UNKNOWN for j in judged):
        return PathState(State.UNPROVEN, text, judged)
    return PathState(State.ELIGIBLE, text, judged)


def _started(need: Need, answer: Met, setup: Setup) -> Met:
    """A running server has met what is asked at its start; where a rule says that it does not start, the rule is in doubt."""
    if not setup.resolved or need.when is not When.START or answer.held is Held.YES:
        return answer
    if answer.held is Held.UNKNOWN:
        return Met(Held.YES, f"the engine started: {need.text}")
    return Met(Held.UNKNOWN, f"the engine did start, which the rules here do not allow: {answer.text}")


def _answer(need: Need, setup: Setup, point: Point) -> Met:
    lost = [name for name in need.rules if not setup.build.rule(name).known]
    if lost:
        status = setup.build.rule(lost[0]).status
        return Met(Held.UNKNOWN, f"{need.text}: rule {lost[0]} is {status} on this build")
    if need.check is None:
        return Met(Held.UNKNOWN, f"{need.text}: only a run can tell")
    return need.check(setup, point)
