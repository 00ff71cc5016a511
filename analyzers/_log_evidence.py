"""Fast paths beside a server's log: what it chose and refused, and where the kernels say otherwise.

A log never makes a verdict: a choice is not an execution. Most of its lines are written once a process and by one rank
only, so that the silence of another rank proves nothing, and a line holds for the rank that wrote it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import PurePath

from m3probe.analyzers._log_choices import SPEAKS, Speaks
from m3probe.analyzers._path_row import NO_CONFIGURATION
from m3probe.model.findings import Finding
from m3probe.model.log_match import contradictions
from m3probe.model.path_report import PathRow
from m3probe.model.recording import Recording
from m3probe.model.server_log import LogKind, LogLine, ServerLog
from m3probe.schema.paths import FastPath
from m3probe.schema.setup import Held, Watched
from m3probe.schema.verdicts import PathVerdict

NOT_RUN = "a log says what was chosen, not what ran"
JOINED_BY = " + "
"""How a path row names several variants that ran."""
_LINES = 4
_NAMED = 3
_MISSING = (PathVerdict.UNPROVEN, PathVerdict.MISSED, PathVerdict.DECLINED)


def with_logs(rec: Recording, name: str, path: FastPath, row: PathRow) -> PathRow:
    """A path's row with what logs say of it: evidence of kind ``log``, and reasons where nothing shows that it ran."""
    if not rec.meta.logs:
        return row
    row = _on_paper(rec, path, row)
    said = [(log, group) for log in _own(rec) for group in _groups(log, SPEAKS.get(name))]
    if not said:
        return row
    told = [_sentence(log, group) for log, group in said[:_LINES]]
    told += [f"log: and {len(said) - _LINES:,} more statements"] if len(said) > _LINES else []
    reasons = list(_reasons(row, said)) if row.verdict in _MISSING else []
    return replace(row, evidence=(*row.evidence, *told), reasons=(*row.reasons, *reasons))


def log_findings(rec: Recording, rows: Iterable[PathRow]) -> tuple[Finding, ...]:
    """Logs of another server, and choices that what ran contradicts."""
    strangers = (_stranger(log, rec) for log in rec.meta.logs)
    differ = (_differs(log, row) for log in _own(rec) for row in rows)
    return tuple(found for found in (*strangers, *differ) if found is not None)


def _own(rec: Recording) -> list[ServerLog]:
    """Logs that may be of the server that was recorded; nothing of another one's is held against a path."""
    return [log for log in rec.meta.logs if not contradictions(log, rec)]


def _on_paper(rec: Recording, path: FastPath, row: PathRow) -> PathRow:
    """Whether it is configured: not known where that hangs on a variable that no log tells.

    Where nothing but a log was read there is no step to judge, and what the configuration says is told all the same.
    """
    setup = rec.meta.setup
    if setup is None:
        return row
    stepless = replace(row, reasons=tuple(reason for reason in row.reasons if reason != NO_CONFIGURATION))
    if path.asked is None:
        return row if row.cells else stepless
    seen: set[str] = set()
    env, flags = (Watched(held, setup.uncertain, seen) for held in (setup.env, setup.flags))
    asked = path.asked(replace(setup, env=env, flags=flags))
    word = "unknown" if seen or asked.state is Held.UNKNOWN else str(asked.state)
    if row.cells:
        return replace(row, configured="unknown") if word == "unknown" else row
    off = (f"not configured: {asked.text}",) if word == "no" else ()
    return replace(stepless, configured=word, reasons=(*off, *stepless.reasons))


def _groups(log: ServerLog, speaks: Speaks | None) -> list[list[LogLine]]:
    """Lines that say the same, of several processes, together."""
    found: dict[tuple[str, ...], list[LogLine]] = {}
    for line in log.of(*speaks.kinds) if speaks else ():
        found.setdefault((line.kind, line.value, line.refused, *line.details.values()), []).append(line)
    return list(found.values())


def _sentence(log: ServerLog, group: Sequence[LogLine]) -> str:
    first = group[0]
    what = _what(first) if first.value else f"refused: {first.refused}"
    times = sum(line.count for line in group)
    often = f", {times:,} lines" if times > len(group) else ""
    return f"log: {what} ({_who(group)}, {PurePath(log.path).name}:{first.number}{often})"


def _what(line: LogLine) -> str:
    kind = str(line.kind).replace("_", " ")
    chosen = f"{kind}: {line.value}" if line.kind is LogKind.CAPTURED else f"selected {kind} {line.value}"
    details = ", ".join(f"{key} {value}" for key, value in line.details.items())
    why = f"; refused {line.refused}" if line.refused else ""
    return f"{chosen}{f' ({details})' if details else ''}{why}"


def _who(group: Sequence[LogLine]) -> str:
    """Who said it: no other process is spoken of."""
    names = list(dict.fromkeys(line.process or "a process without a label" for line in group))
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return f"said by {', '.join(names[:_NAMED])}{more}"


def _reasons(row: PathRow, said: Sequence[tuple[ServerLog, Sequence[LogLine]]]) -> Iterator[str]:
    """What was chosen without proof that it ran; and what the server itself says that it refused."""
    chosen = list(dict.fromkeys(group[0].value for _, group in said if group[0].value))
    refused = list(dict.fromkeys(group[0].refused for _, group in said if group[0].refused))
    if chosen and row.verdict == PathVerdict.UNPROVEN:
        yield f"the log says {'; '.join(chosen[:_NAMED])}: {NOT_RUN}"
    elif row.verdict == PathVerdict.UNPROVEN:
        yield NOT_RUN
    yield from (f"the log says that it refused {reason}" for reason in refused[:_NAMED])


# --- contradictions ------------------------------------------------------------------------------------------------


def _stranger(log: ServerLog, rec: Recording) -> Finding | None:
    against = contradictions(log, rec)
    if not against:
        return None
    return Finding(
        id="paths.log_of_another_server",
        question="paths",
        verdict="differs",
        claim=f"{'; '.join(against)}: nothing of the log is held against a path",
        where=log.path,
        evidence=(),
        advice="Give the log of the server that was recorded, from its start.",
    )


def _differs(log: ServerLog, row: PathRow) -> Finding | None:
    """What ran on the rank that wrote a line, against what that line says."""
    speaks = SPEAKS.get(row.id)
    for line in log.of(*speaks.kinds) if speaks else ():
        ran = _ran(row, line.rank)
        held = [speaks.allows(line, variant) for variant in ran] if speaks else []
        if held and not any(answer is not False for answer in held):
            return _contradiction(log, line, row, ran)
    return None


def _ran(row: PathRow, rank: int | None) -> list[str]:
    """Variants that ran on a rank; those of the whole row where the recording has no ranks to tell apart."""
    cells = [cell for cell in row.cells if None in (rank, cell.rank) or cell.rank == rank]
    texts = [cell.variant for cell in cells] if row.cells else [row.variant]
    return list(dict.fromkeys(name for text in texts for name in text.split(JOINED_BY) if name))


def _contradiction(log: ServerLog, line: LogLine, row: PathRow, ran: Sequence[str]) -> Finding:
    said = _what(line) if line.value else f"refused: {line.refused}"
    whose = f"{line.process or 'the log'}" + (f" (rank {line.rank})" if line.rank is not None else "")
    return Finding(
        id=f"paths.log_differs.{row.id}",
        question="paths",
        verdict="differs",
        claim=f"{row.title}: the log says {said} by {whose}, and what ran is {JOINED_BY.join(ran)}",
        where=f"{log.path}:{line.number}",
        evidence=(),
        advice="What ran counts. Either the log is of another start, or the choice is refused later, at each call.",
    )
