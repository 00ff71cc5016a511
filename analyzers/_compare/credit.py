"""What a change may be put down to: a path gets credit only where it ran, in the phase that changed, and alone changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from m3probe.analyzers._compare import facts as of
from m3probe.analyzers._compare.contract import DENSITY, HARDWARE, differing, missing_core
from m3probe.analyzers._compare.effects import Effect, moved_phases
from m3probe.model.compare_report import BETTER, DIFFERS, NO_CHANGE, Contract, Credit, PhaseChange, Setting
from m3probe.model.compare_run import RunKept
from m3probe.schema.setup import State
from m3probe.schema.verdicts import Phase

CREDITED, BUNDLE, NOT_ITS, SUSPECT = "credited", "bundle", "not its", "suspect not executed"
IDLE_RAN, REFUSED, UNPROVEN = "executed without effect", "refused", "unproven"
_OTHER_WORK = (of.MODEL, of.WEIGHTS, of.WORKLOAD, of.CONCURRENCY, of.WORK, of.ACCEPTANCE, of.PREFIX)
GIVE_RECIPES = "Give the configuration of each run: --recipe FILE once per run, the server's log, or a live recording"
GIVE_TRACES = "A trace or a live recording of both runs that holds steps of this phase: it shows which kernels ran"


@dataclass(frozen=True, slots=True)
class Paper:
    """A path that one configuration asks for and the other does not, by phase: can it run there?"""

    id: str
    eligible: tuple[str, ...]
    refused: dict[str, tuple[str, ...]]


def put_down(
    a: RunKept, b: RunKept, contract: Contract, told: dict[str, Effect], phases: Sequence[PhaseChange]
) -> tuple[Credit, ...]:
    """Every phase that changed, and what was set and changed nothing."""
    return tuple(_credits(a, b, contract, told, phases))


def changed(contract: Contract) -> tuple[Setting, ...] | None:
    """Settings that differ by themselves, the build among them; None where they are not known."""
    if contract.settings is None:
        return None
    alone = tuple(s for s in contract.settings if not s.follows)
    build = next((t for t in contract.topics if t.topic == of.BUILD and t.state == DIFFERS), None)
    if build is None or any(s.name == "--vllm" for s in alone):
        return alone
    return (Setting("image or version", build.before or "", build.after or ""), *alone)


def _credits(
    a: RunKept, b: RunKept, contract: Contract, told: dict[str, Effect], phases: Sequence[PhaseChange]
) -> Iterator[Credit]:
    other = [topic for topic in differing(contract) if topic in _OTHER_WORK]
    if contract.kind in (DENSITY, HARDWARE) or other:
        topics = other or list(differing(contract))
        by = _few([setting.name for setting in changed(contract) or ()])
        text = f"no path and no flag is credited: {', '.join(topics)} changed{f' (settings that differ: {by})' if by else ''}"
        text += ", so that the runs did not do the same work on the same machine"
        yield Credit("", REFUSED, tuple(topics), text, "Two runs that differ in one setting alone")
        return
    papers = _papers(a, b)
    for phase, effect in moved_phases(told):
        yield _credit(a, b, contract, phase, effect, [c for c in phases if c.phase == phase])
    for paper in papers:
        yield from _cannot(paper, told)
    yield from _without_effect(a, b, contract, told)


def _credit(
    a: RunKept, b: RunKept, contract: Contract, phase: str, effect: Effect, changes: Sequence[PhaseChange]
) -> Credit:
    gain = f"{phase} is {'faster' if effect.verdict == BETTER else 'slower'} ({'; '.join(effect.said[:4])})"
    gain += ", by bare figures whose noise is not known" if effect.bare else ""
    started, stopped = _ran_alone(b, a, phase), _ran_alone(a, b, phase)
    ran = _ran_words(started, stopped)
    made = changed(contract)
    if made is None:
        said = f"{gain}; {ran or 'no path is seen to run in one of them alone'}; what was set is not known of both runs"
        return Credit(phase, UNPROVEN, (*started, *stopped), said, GIVE_RECIPES)
    names = tuple(setting.name for setting in made)
    if len(names) > 1:
        said = f"{gain}; {len(names)} things changed at once ({_few(names)}), so that it goes to all of them together"
        return Credit(phase, BUNDLE, names, f"{said}{'; ' + ran if ran else ''}", "Change one of them at a time")
    if not names:
        said = f"{gain}; no setting that is known differs{'; ' + ran if ran else ''}"
        return Credit(phase, UNPROVEN, (*started, *stopped), said, "Repeat both runs: without a cause it may be noise")
    if (started or stopped) and not effect.bare:
        why, lacks = _explains(changes), missing_core(contract)
        said = f"{gain}; {ran}, and {names[0]} alone changed{'; ' + why if why else ''}"
        said += f" (that {' and '.join(lacks)} were alike is not known)" if lacks else ""
        return Credit(phase, CREDITED, (*(started or stopped), names[0]), said)
    return _on_paper(a, b, phase, gain, names[0])


def _on_paper(a: RunKept, b: RunKept, phase: str, gain: str, name: str) -> Credit:
    """No recording shows a path that ran in one of them alone: what could have."""
    papers = _papers(a, b)
    able = tuple(p.id for p in papers if phase in p.eligible)
    barred = [p for p in papers if phase in p.refused]
    if able:
        said = f"{gain}; {name} alone changed, {', '.join(able)} is eligible in {phase} by it, and nothing shows that it ran"
        return Credit(phase, UNPROVEN, able, said, GIVE_TRACES)
    if barred:
        why = "; ".join(barred[0].refused[phase][-1:])
        said = f"{gain}, and it cannot be {barred[0].id}'s: it is not eligible in {phase} ({why})"
        return Credit(
            phase, NOT_ITS, tuple(p.id for p in barred), said, "Repeat both runs, and look for what else changed"
        )
    return Credit(
        phase, UNPROVEN, (name,), f"{gain}; {name} alone changed, and no path is seen to run because of it", GIVE_TRACES
    )


def _ran_alone(one: RunKept, other: RunKept, phase: str) -> tuple[str, ...]:
    """Paths that ran in one run and surely not in the other."""
    ids = dict.fromkeys(p.id for p in one.paths if p.phase == phase)
    return tuple(i for i in ids if one.ran(i, phase) is True and other.ran(i, phase) is False)


def _ran_words(started: Sequence[str], stopped: Sequence[str]) -> str:
    parts = [f"{', '.join(started)} ran after and not before"] if started else []
    parts += [f"{', '.join(stopped)} ran before and not after"] if stopped else []
    return "; ".join(parts)


def _few(names: Sequence[str]) -> str:
    """The first few of what may be a whole environment; all of them are among the settings."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"{', '.join(names[:NAMED])}{more}"


NAMED = 6


def _explains(changes: Sequence[PhaseChange]) -> str:
    """The part of the step that makes up most of the change."""
    for change in sorted(changes, key=lambda c: -min(c.steps_before, c.steps_after)):
        parts = [p for p in (*change.parts, *change.families) if p.share is not None and p.what != "overlap"]
        if parts and change.delta_ns is not None:
            most = max(parts, key=lambda p: p.share or 0.0)
            what = {"idle": "idle time", "family": f"{most.name} kernels"}.get(most.what, most.name)
            return (
                f"{what} is {100 * (most.share or 0.0):.0f} % of the change of {change.delta_ns / 1e6:+,.3f} ms a step"
            )
    return ""


def _papers(a: RunKept, b: RunKept) -> list[Paper]:
    """Paths that ``b`` asks for and ``a`` does not, as far as both are known."""
    before = {line.id: line for line in a.paper}
    found = []
    for line in b.paper:
        mine = before.get(line.id)
        if mine is None or line.state == State.OFF or any(at.state != State.OFF for at in mine.at):
            continue
        phases = dict.fromkeys(at.point.phase for at in line.at)
        at = {phase: [at for at in line.at if at.point.phase == phase] for phase in phases}
        able = tuple(p for p, points in at.items() if any(x.state == State.ELIGIBLE for x in points))
        barred = {
            p: tuple(dict.fromkeys(need.text for x in points for need in x.needs if need.held == "no"))
            for p, points in at.items()
            if all(x.state == State.REFUSED for x in points)
        }
        found.append(Paper(line.id, able, barred))
    return found


def _cannot(paper: Paper, told: dict[str, Effect]) -> Iterator[Credit]:
    """A path that is refused in decode and eligible in prefill explains no decode gain, whatever the throughput does."""
    decode = str(Phase.DECODE)
    got = told.get(decode) or told.get("")
    if decode not in paper.refused or not paper.eligible or got is None or decode in dict(moved_phases(told)):
        return
    why = "; ".join(paper.refused[decode][-1:])  # the largest batch comes nearest
    said = f"only {', '.join(paper.eligible)} can have gained by {paper.id}: it is not eligible in decode ({why})"
    yield Credit(decode, NOT_ITS, (paper.id,), said)


def _without_effect(a: RunKept, b: RunKept, contract: Contract, told: dict[str, Effect]) -> Iterator[Credit]:
    made = changed(contract)
    if not made or not told or any(effect.verdict != NO_CHANGE for effect in told.values()):
        return
    names = tuple(setting.name for setting in made)
    figures = "; ".join(text for effect in told.values() for text in effect.said[:3])
    started = tuple(dict.fromkeys(i for phase in ("prefill", "decode", "mixed") for i in _ran_alone(b, a, phase)))
    if started:
        said = f"{', '.join(names)} changed and {', '.join(started)} ran, and no metric moved ({figures})"
        yield Credit("", IDLE_RAN, (*started, *names), said)
        return
    known = [w.text for w in b.warnings if w.kind == "no_effect" and w not in a.warnings]
    judged = f"; the configuration itself says why: {'; '.join(known[:2])}" if known else ""
    said = f"{', '.join(names)} changed and no metric moved ({figures}): configured, no effect{judged}"
    yield Credit("", SUSPECT, names, said, "" if known else GIVE_TRACES)
