"""What one ``attach`` found, did and lost, as a report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from m3probe.attach import proc as processes
from m3probe.attach.asked import Asked
from m3probe.attach.crew import Crew, Guest
from m3probe.attach.fetch import Client
from m3probe.attach.metrics import Series
from m3probe.attach.recording import size_of
from m3probe.attach.rocm import read_profiling
from m3probe.attach.session import Session
from m3probe.model.attach_report import AttachReport, Offer, ProcessReport
from m3probe.schema import secrets
from m3probe.schema.control import Status
from m3probe.schema.env_names import PER_PROCESS
from m3probe.schema.records import Config
from m3probe.schema.roles import Role

KNOWN = ("0.24.0", "0.25.1", "0.32.0", "0.33.0")
"""Versions of vLLM whose seams were checked in its source."""


@dataclass(frozen=True, slots=True)
class Found:
    """One server before recording. ``profiler``: whether vLLM's own is configured; None where it was not asked."""

    crew: Crew | None
    series: Series | None
    client: Client | None = None
    offers: tuple[Offer, ...] = ()
    version: str = ""
    notes: tuple[str, ...] = ()
    configs: tuple[Config, ...] = ()
    profiler: bool | None = None


def report_of(asked: Asked, found: Found, session: Session | None) -> AttachReport:
    """Put together what is to be told; ``session``: None where nothing was to be recorded."""
    crew = found.crew
    losses = tuple(_losses(found, session))
    return AttachReport(
        target=asked.target,
        outcome=_outcome(found, session, losses),
        url=found.client.url if found.client else "",
        version=found.version or _versions(crew),
        first=tuple(_first(crew)),
        notes=(*found.notes, *_notes(crew)),
        losses=losses,
        processes=tuple(_process(guest, asked.proc) for guest in crew.all) if crew else (),
        differences=_differences(crew, asked.proc) if crew else (),
        offers=found.offers,
        windows=tuple(session.ended_windows) if session else (),
        folder=str(session.folder) if session else "",
        seconds=round(session.seconds, 3) if session else 0.0,
        steps=session.steps if session else -1,
        scrapes=session.scrapes if session else 0,
        bytes=size_of(session.folder) if session else 0,
        ended=session.ended if session else "",
    )


def _outcome(found: Found, session: Session | None, losses: tuple[str, ...]) -> str:
    if session is None:
        return "looked"
    recorded = [g for g in (found.crew.all if found.crew else ()) if g.status and g.first_step >= 0]
    if not session.scrapes and not any(g.status and g.status.records > 0 for g in recorded):
        return "nothing"
    return "partial" if losses else "recorded"


def late_words(crew: Crew) -> str:
    """The first thing said of a server whose graph capture nobody watched; empty where it was watched."""
    workers = [guest for guest in crew.all if guest.status and Role.WORKER in guest.roles]
    late = [guest for guest in workers if guest.late]
    if not late:
        return ""
    return (
        f"{len(late)} of {len(workers)} workers were not watched while their graphs were captured: paths inside graphs "
        "are `unproven` until (a) a restart with the plugin installed, (b) a kernel window: --profile-steps N, or "
        "(c) N steps without replay: --eager-twin N"
    )


def _first(crew: Crew | None) -> list[str]:
    if crew is None:
        return []
    late = late_words(crew)
    return [late] if late else []


def _losses(found: Found, session: Session | None) -> list[str]:
    told = []
    for guest in found.crew.all if found.crew else ():
        if guest.state in {"lost", "refused"}:
            told.append(f"{guest.name}: {guest.text}")
        elif guest.state in {"no guest", "zombie", "gone"}:
            told.append(f"{guest.name}: nothing recorded in it: {guest.text}")
        elif guest.state == "recorded" and guest.text:
            told.append(f"{guest.name}: {guest.text}")
        told += _said(guest.name, guest.status)
    if session and session.host.lost:
        told.append(session.host.lost)
    if session and found.series and found.series.failed:
        told.append(f"/metrics: {found.series.failed} scrapes failed ({found.series.why})")
    if found.series and found.series.restarts:
        told.append("the server restarted while it was looked at: its counters begin again")
    return told


def _said(name: str, status: Status | None) -> list[str]:
    if status is None:
        return []
    told = []
    if status.left_behind:
        told.append(f"{name}: not given back, as others replaced them meanwhile: {', '.join(status.left_behind)}")
    if status.dropped:
        told.append(f"{name}: dropped {_counts(status.dropped)}")
    if status.failed_hooks:
        told.append(f"{name}: hooks of ours failed (vLLM went on): {_counts(status.failed_hooks)}")
    if status.stopped:
        told.append(f"{name}: recording stopped by itself: {status.stopped}")
    return told


def _seams_told(state: str, names: set[str]) -> str:
    """Absent ones are many and mostly another platform's; a changed one is a fact that is missing here."""
    if state == "absent":
        return f"{len(names)} seams are not in this vLLM, or not loaded by it here: paths behind them are unproven (--json lists them)"
    return f"seams {state} in this vLLM: {', '.join(sorted(names))}"


def _notes(crew: Crew | None) -> list[str]:
    """Unknown versions, seams that are not as expected, and what was given back."""
    told: list[str] = []
    if crew is None:
        return told
    versions = sorted({g.status.vllm for g in crew.all if g.status and g.status.vllm})
    unknown = [version for version in versions if version.partition("+")[0] not in KNOWN]
    if unknown:
        told.append(
            f"vLLM {', '.join(unknown)} is none of those whose seams were checked ({', '.join(KNOWN)}): "
            "a seam that is not there lowers coverage, and is told"
        )
    seams: dict[str, set[str]] = {}
    for guest in crew.all:
        for seam, state in (guest.status.seams if guest.status else {}).items():
            if state != "present":
                seams.setdefault(state, set()).add(seam)
    losses = dict.fromkeys(
        known.text
        for guest in crew.workers()
        for known in read_profiling(guest.pid, crew.proc, guest.env or None).known
    )
    told += [f"a profiler window here: {text}" for text in losses]
    told += [_seams_told(state, names) for state, names in sorted(seams.items())]
    return told


def _process(guest: Guest, proc: Path) -> ProcessReport:
    status, use = guest.status, processes.use(guest.pid, proc)
    counted = guest.first_step >= 0 and status is not None
    return ProcessReport(
        pid=guest.pid,
        role=str(guest.role),
        name=guest.member.name,
        state=guest.state,
        text=guest.text,
        rank=status.rank if status else -1,
        vllm=status.vllm if status else "",
        injected=guest.injected,
        late=guest.late,
        captured=status.captured if status else -1,
        steps=guest.steps if Role.WORKER in guest.roles else -1,
        records=status.records if status and counted else -1,
        bytes=status.bytes if status and counted else -1,
        hooks_before=guest.hooks_before,
        hooks_armed=guest.hooks_armed,
        hooks_after=guest.hooks_after,
        left_behind=status.left_behind if status else (),
        dropped=status.dropped if status else {},
        failed_hooks=status.failed_hooks if status else {},
        stopped=status.stopped if status else "",
        fds=use.fds,
        fd_soft=use.fd_soft,
        rocm=tuple(library.text for library in read_profiling(guest.pid, proc).libs),
        env=_env(guest, proc),
        seams=status.seams if status else {},
    )


def _env(guest: Guest, proc: Path) -> Mapping[str, str] | None:
    """As the guest sees it, else as the kernel kept it; None where it is not known."""
    if guest.env is not None:
        return guest.env
    found = processes.environ(guest.pid, proc)
    return None if found is None else secrets.environment(found)


def _differences(crew: Crew, proc: Path) -> tuple[str, ...]:
    """Variables that steer the server and are not the same in all processes whose environment is known."""
    known = {guest.name: env for guest in crew.all if (env := _env(guest, proc)) is not None}
    names = sorted({name for env in known.values() for name in env} - PER_PROCESS)
    told = []
    for name in names:
        values: dict[str, list[str]] = {}
        for who, env in known.items():
            values.setdefault(env.get(name, "(unset)"), []).append(who)
        if len(values) > 1:
            parts = (f"{value} in {', '.join(whose)}" for value, whose in values.items())
            told.append(f"{name}: {'; '.join(parts)}")
    return tuple(told)


def _versions(crew: Crew | None) -> str:
    found = sorted({g.status.vllm for g in crew.all if g.status and g.status.vllm}) if crew else []
    return ", ".join(found)


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.items())
