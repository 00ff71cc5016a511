"""What a change may be put down to: a path gets credit only where it ran, in the phase that changed, and alone changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from m3probe.analyzers._compare import facts as of
from m3probe.analyzers._compare.contract import DENSITY, HARDWARE, differing
from m3probe.analyzers._compare.effects import Effect, moved_phases, noise
from m3probe.analyzers._compare.own import acts_on, own_part, own_words
from m3probe.fastpaths import fast_paths
from m3probe.model.compare_report import BETTER, DIFFERS, NO_CHANGE, WORSE, Contract, Credit, PhaseChange, Setting
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
        seen = [said for phase in _TRACED if (said := _seen(a, b, phase, [c for c in phases if c.phase == phase]))]
        text += f"; {'; '.join(seen)}" if seen else ""
        yield Credit("", REFUSED, tuple(topics), text, "Two runs that differ in one setting alone")
        return
    papers = _papers(a, b)
    for phase, effect in moved_phases(told):
        yield _credit(a, b, contract, phase, effect, [c for c in phases if c.phase == phase])
    for paper in papers:
        yield from _cannot(paper, told)
    yield from _without_effect(a, b, contract, told, phases)


def _credit(
    a: RunKept, b: RunKept, contract: Contract, phase: str, effect: Effect, changes: Sequence[PhaseChange]
) -> Credit:
    gain = f"{phase} is {'faster' if effect.verdict == BETTER else 'slower'} ({effect.said()})"
    gain += f", as far as can be told: {effect.bare}" if effect.bare else ""
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
        said = f"{gain}; {ran}, and {names[0]} alone changed"
        return _earned(phase, effect, (*started, *stopped), names[0], changes, said, contract.missing_core)
    return _on_paper(a, b, phase, gain, names[0])


def _earned(
    phase: str,
    effect: Effect,
    ran: tuple[str, ...],
    name: str,
    changes: Sequence[PhaseChange],
    said: str,
    lacks: Sequence[str],
) -> Credit:
    """The credit, held against the part of the traced change that the paths can have made."""
    said += f" (that {' and '.join(lacks)} were alike is not known)" if lacks else ""
    own = own_part(ran, changes)
    if own is None:
        return Credit(phase, CREDITED, (*ran, name), said)
    said = f"{said}; {own_words(own)}"
    traced = own.change.verdict
    if traced in (BETTER, WORSE) and traced != effect.verdict:
        return Credit(phase, UNPROVEN, (*ran, name), f"{said}; the traced steps go the other way", GIVE_TRACES)
    if own.share is not None and own.share <= 0 and traced == effect.verdict:
        return Credit(phase, NOT_ITS, (*ran, name), said, "Look for what else changed", own.share, own.delta_ns)
    return Credit(phase, CREDITED, (*ran, name), said, "", own.share, own.delta_ns)


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
BLIND = 0.10
"""Least noise with which a figure that stands still is no sign that nothing ran: flags of this model bring 3 to 10 %."""


_TRACED = (str(Phase.PREFILL), str(Phase.DECODE), str(Phase.MIXED))


def _seen(a: RunKept, b: RunKept, phase: str, changes: Sequence[PhaseChange]) -> str:
    """What ran in one alone, and the part of the traced change that it made."""
    started, stopped = _ran_alone(b, a, phase), _ran_alone(a, b, phase)
    if not started and not stopped:
        return ""
    own = own_part((*started, *stopped), changes)
    return f"in {phase} {_ran_words(started, stopped)}{': ' + own_words(own) if own else ''}"


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


def _without_effect(
    a: RunKept, b: RunKept, contract: Contract, told: dict[str, Effect], phases: Sequence[PhaseChange]
) -> Iterator[Credit]:
    made = changed(contract)
    if not made or not told or any(effect.verdict != NO_CHANGE for effect in told.values()):
        return
    names = tuple(setting.name for setting in made)
    figures = "; ".join(effect.said(3) for effect in told.values())
    started = tuple(dict.fromkeys(i for phase in _TRACED for i in _ran_alone(b, a, phase)))
    if started:
        seen = [said for phase in _TRACED if (said := _seen(a, b, phase, [c for c in phases if c.phase == phase]))]
        said = f"{', '.join(names)} changed and {', '.join(started)} ran, and no metric moved ({figures}); {'; '.join(seen)}"
        yield Credit("", IDLE_RAN, (*started, *names), said)
        return
    known = _wasted(a, b)
    judged = f"; the configuration itself says why: {'; '.join(list(known.values())[:2])}" if known else ""
    shown = [text for path in known for change in phases if (text := _same_launches(path, change, a, b))]
    judged += f"; {'; '.join(shown[:2])}" if shown else ""
    said = f"{', '.join(names)} changed and no metric moved ({figures}): configured, no effect{judged}"
    blind = noise(told)
    if not known and blind is not None and blind[0] > BLIND:
        said = f"{', '.join(names)} changed, and the noise hides any change below {100 * blind[0]:.0f} % ({figures})"
        yield Credit("", UNPROVEN, names, said, "Repeat each point five times, in turn: one run of this, one of that")
        return
    yield Credit("", SUSPECT, names, said, "" if known else GIVE_TRACES)


def _wasted(a: RunKept, b: RunKept) -> dict[str, str]:
    """What the later configuration sets and does not reach, by the path it is for, with the reason."""
    before, after = _reasons(a), _reasons(b)
    return {key: text for key, text in after.items() if before.get(key) != text}


def _reasons(run: RunKept) -> dict[str, str]:
    found = {}
    if run.setup is not None:
        for name, path in fast_paths().items():
            held = path.asked is not None and (run.setup.model.is_minimax_m3 or not path.only_m3)
            asked = path.asked(run.setup) if path.asked and held else None
            if asked and asked.wasted:
                found[name] = f"{name}: {asked.text}"
    told = [w.text for w in run.warnings if w.kind == "no_effect" and w.text not in found.values()]
    return found | {text: text for text in told}


def _same_launches(path: str, change: PhaseChange, a: RunKept, b: RunKept) -> str:
    """That a path ran in neither, and its kernels as often in both; "" where that is not seen."""
    if path not in fast_paths() or a.ran(path, change.phase) is not False or b.ran(path, change.phase) is not False:
        return ""
    parts = [p for p in change.families if p.name in acts_on((path,))[0]]
    counts = [(p.name, p.count_before, p.count_after) for p in parts if p.count_before is not None]
    told = [f"{x:,.1f} {name} kernels a {change.phase} step before and {y or 0.0:,.1f} after" for name, x, y in counts]
    return f"{path} ran in neither: {', '.join(told)}" if told else f"{path} ran in neither {change.phase}"
