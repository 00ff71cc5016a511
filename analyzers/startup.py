"""How a server started, what it still built when it was ready, what went wrong first, and from when on it was steady."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from m3probe.analyzers._log_run_facts import cause_text
from m3probe.analyzers._startup_steady import SPREAD, Steady, steady
from m3probe.model.findings import Finding, evidence
from m3probe.model.log_events import Raised, Start, StartStep, Trouble
from m3probe.model.log_tables import AGGREGATED, SINGLE
from m3probe.model.recording import Recording
from m3probe.model.report import Answer
from m3probe.model.server_log import ServerLog
from m3probe.plugs import Analyzer

QUESTION = "startup"
_NAMED = 4
_TROUBLES = {
    Trouble.SQ_FULL: (
        "the network card's send queue was full",
        "Raise the send queue's depth in the environment of the worker processes, not only of the front end.",
    ),
    Trouble.NO_FILES: (
        "a process ran out of open files",
        "Raise nofile of client, proxy and server above 2 x concurrency (m3probe doctor --concurrency N tells which).",
    ),
    Trouble.STALL: (
        "a worker waited a minute for a message that did not come",
        "Look at the slowest worker at that time: a build, a load or a hang there holds all the others.",
    ),
}


def judge(rec: Recording, _so_far: Answer) -> Answer:
    """Findings of each log; none where there is no log."""
    return Answer(findings=tuple(found for log in rec.meta.logs for found in _of(rec, log)))


ANALYZER = Analyzer(title="How did the server start?", order=62, judge=judge)


def _of(rec: Recording, log: ServerLog) -> Iterator[Finding]:
    mark = f".{log.file}" if len(rec.meta.logs) > 1 else ""
    yield from _crash(log, mark)
    yield from _late(log, mark)
    for trouble, (what, advice) in _TROUBLES.items():
        line = log.run.first(trouble)
        if line:
            claim = f"The log says {line.count:,} time(s) that {what}: {line.text[:160]}"
            yield _finding(f"{trouble}{mark}", "limit", claim, f"{log.path}:{line.number}", advice)
    yield from _timeline(log, mark)
    yield from (_steady(log, one, mark) for one in steady(rec, log))


def _finding(word: str, verdict: str, claim: str, where: str, advice: str, confidence: str = "high") -> Finding:
    return Finding(f"{QUESTION}.{word}", QUESTION, verdict, claim, where, (), advice, confidence=confidence)


def _crash(log: ServerLog, mark: str) -> Iterator[Finding]:
    cause = log.run.first_cause
    if cause is not None:
        others = log.run.tracebacks + log.run.count(Trouble.GPU_FAULT) - 1
        more = f"; {others:,} more fault(s) and traceback(s) follow it" if others else ""
        whose = f" in {cause.process}" if cause.process else ""
        kind = "exception" if isinstance(cause, Raised) else "fault"
        claim = f"The first {kind} of the log is{whose}: {cause_text(cause)[:240]}{more}"
        yield _finding(f"first_cause{mark}", "fault", claim, f"{log.path}:{cause.number}", "Start at this line.")
    elif log.run.raised and not log.run.first(Trouble.SHUTDOWN):
        one = log.run.raised[0]
        claim = f"A process says that another one failed, and the log does not hold why: {cause_text(one)[:200]}"
        advice = "Give the log of the process that failed (kernel log, container log): it wrote nothing here."
        yield _finding(f"first_cause{mark}", "unproven", claim, f"{log.path}:{one.number}", advice)


def _late(log: ServerLog, mark: str) -> Iterator[Finding]:
    late = [step for step in log.run.steps if step.late]
    if not late:
        return
    names = list(dict.fromkeys(step.what or str(step.stage) for step in late))
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    spent = [step.took_s for step in late if step.took_s is not None]
    cost = f"; {sum(spent):,.1f} s of building are told" if spent else "; how long is not told"
    claim = (
        f"{sum(step.count for step in late):,} build(s) after the server was ready: {', '.join(names[:_NAMED])}{more}"
        f"{_span(late)}{cost}"
    )
    advice = "Warm up with the shapes that are served, or keep the caches; leave these windows out of any benchmark."
    yield _finding(f"builds_after_ready{mark}", "late", claim, f"{log.path}:{late[0].number}", advice)


def _span(steps: list[StartStep]) -> str:
    times = [step.at_s for step in steps if step.at_s is not None]
    return f", {min(times):,} to {max(times):,} s into the log" if times else ""


def _timeline(log: ServerLog, mark: str) -> Iterator[Finding]:
    """Stages by when their last line was written: processes of one stage run side by side."""
    last: dict[Start, StartStep] = {}
    for step in log.run.steps:
        if step.at_s is not None and not step.late:
            last[step.stage] = step
    walk = sorted(last.items(), key=lambda item: (item[1].at_s or 0, item[1].number))
    if len(walk) < 2:
        return
    told = [f"{_word(stage)} {step.at_s:,} s{_took(step)}" for stage, step in walk]
    gaps = [((b.at_s or 0) - (a.at_s or 0), _word(y), _word(x)) for (x, a), (y, b) in pairwise(walk)]
    longest = max(gaps, key=lambda gap: gap[0])
    starts = "; several starts stand in this log, the last of each stage counts" if log.starts > 1 else ""
    silent = "" if log.run.modules else "; no line of AITER's modules, which proves nothing"
    claim = (
        f"Since the first record: {', '.join(told)}. The longest stretch is {longest[0]:,} s, from {longest[2]} to "
        f"{longest[1]} (whole seconds{silent}{starts})"
    )
    advice = "A stage is told when it ends: what the longest stretch did is what its last line names."
    yield _finding(f"timeline{mark}", "measured", claim, f"{log.path}:{walk[0][1].number}", advice)


def _word(stage: Start) -> str:
    return "model laid out" if stage is Start.MODEL else str(stage).replace("_", " ")


def _took(step: StartStep) -> str:
    return f" (took {step.took_s:,.1f} s)" if step.took_s is not None else ""


def _steady(log: ServerLog, one: Steady, mark: str) -> Finding:
    name = {AGGREGATED: "all engines", SINGLE: "the engine"}.get(one.engine, f"engine {one.engine}")
    word = f"steady.{'all' if one.engine == AGGREGATED else max(one.engine, 0)}{mark}"
    if one.from_s is None:
        claim = (
            f"No steady minute of {name} in {one.left_out:,} statistics line(s): no minute after the last build has "
            f"tokens in every window within {SPREAD:.0%} of its mean. Their figures are of a changing load"
        )
        return _finding(word, "unproven", claim, log.path, "Hold the load for some minutes and read the log again.")
    shown = {
        "tokens/s generated": one.generation_tps,
        "running": one.running,
        "waiting": one.waiting,
        "% of the KV cache": one.kv_cache_pct,
    }
    figures = ", ".join(f"{value:,.1f} {what}" for what, value in shown.items() if value is not None)
    claim = f"From {one.from_s:,} s on, {name} in {one.kept:,} windows: {figures}; {one.left_out:,} window(s) before are left out"
    found = _finding(word, "measured", claim, log.path, "These are means of windows: bursts within one are not seen.")
    rows = (evidence("log_stats", one.rows, f"{one.kept:,} windows"),)
    return Finding(found.id, found.question, found.verdict, claim, found.where, rows, found.advice)
