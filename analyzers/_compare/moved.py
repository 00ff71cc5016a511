"""Where the bottleneck is, on which level of the machine, and whether it moved."""

from __future__ import annotations

from collections.abc import Sequence

from m3probe.model.compare_report import Moved
from m3probe.model.compare_run import Bottleneck, RunKept
from m3probe.model.report import Answer, BottleneckSection

TILE, PATH, BYTES, STATE, QUEUE, OS = "tile", "repeated path", "metadata and bytes", "distributed state", "queue", "OS"
LEVELS = (
    ("queues.os_limit", OS),
    ("queues.kv_transfer", STATE),
    ("queues.prefix_cache", STATE),
    ("queues.preemptions", STATE),
    ("queues.kv_capacity", STATE),
    # no queue holds the requests: each of them waits for the step that all of them are in
    ("queues.decode", PATH),
    ("queues", QUEUE),
    ("device_health", OS),
    ("trust.ranks", STATE),
    ("ranks", STATE),
    ("straggler", STATE),
    ("expert_skew", STATE),
    ("roofline.control_plane", BYTES),
    ("bytes", BYTES),
    ("next_bottleneck.copies", BYTES),
    ("next_bottleneck.family.comm", STATE),
    ("next_bottleneck.family.copy", BYTES),
    ("next_bottleneck.family.kv_write", BYTES),
    ("next_bottleneck.idle", PATH),
    ("next_bottleneck.family", TILE),
    ("roofline", TILE),
    ("shapes", TILE),
    ("repeats", PATH),
    ("draft", PATH),
    ("paths", PATH),
    ("live", PATH),
)
"""Level by the beginning of a finding's id, the first that fits; the words climb from a kernel's tile to the host's OS."""


def level(finding: str) -> str:
    """The level of a finding; empty where its id says none."""
    return next((word for start, word in LEVELS if finding == start or finding.startswith(f"{start}.")), "")


def bottleneck(answer: Answer) -> Bottleneck | None:
    """The run's next bottleneck; None where none is named."""
    section = answer.section(BottleneckSection)
    found = section.next_bottleneck if section else None
    if found is None:
        return None
    named = next((f for f in answer.findings if f.id == found.finding), None)
    # the ranking says of an idle gap that lies between steps that no kernel, but what feeds them, is short
    where = QUEUE if found.finding == "next_bottleneck.idle" and "is the queue" in found.why else level(found.finding)
    return Bottleneck(found.finding, named.claim if named else found.finding, found.why, where, found.bound)


def moved(before: RunKept, after: RunKept) -> Moved:
    """From one run's bottleneck to the other's."""
    a, b = before.bottleneck, after.bottleneck
    if a is None or b is None:
        lacks = " and ".join(run.name for run in (before, after) if run.bottleneck is None)
        return Moved("unproven", f"where the bottleneck went is unproven: none is named for {lacks}", a, b)
    if a.finding == b.finding or _kind(a.finding) == _kind(b.finding):
        return Moved("stays", f"the bottleneck stays: {_said(b)}", a, b)
    return Moved("moved", f"the bottleneck moved from {_said(a)} to {_said(b)}", a, b)


def _kind(finding: str) -> str:
    """A queue's finding names its server or its run behind the queue's own name: that is no other bottleneck."""
    parts = finding.split(".")
    return ".".join(parts[:2]) if parts[0] == "queues" else finding


def _said(one: Bottleneck) -> str:
    return f"{one.finding} (level: {one.level})" if one.level else one.finding


def claims(runs: Sequence[RunKept]) -> list[tuple[str, str, str]]:
    """(finding, claim, level) of each run, empty words where none is named."""
    return [(b.finding, b.claim, b.level) if (b := run.bottleneck) else ("", "", "") for run in runs]
