"""What hardware counters say of bytes: fetched and written beyond the L2, beside the least that the operation must read.

Counter runs make kernels run one at a time: their times are in no step, share or bound, and a finding here has none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from m3probe.analyzers._counter_bytes import READS, WRITES, Moved, local_share, read_bytes, written_bytes
from m3probe.analyzers._counter_groups import Group, groups_of
from m3probe.analyzers._counter_least import Least, Leasts
from m3probe.analyzers._roofline_known import device_of
from m3probe.hardware import Accelerator, identify
from m3probe.model.counter_report import CounterRow, Counters, CountersSection
from m3probe.model.findings import Finding, evidence
from m3probe.model.recording import Recording
from m3probe.model.report import Answer
from m3probe.plugs import Analyzer

LIMIT = 1.3
"""Reads above this many times the least are fetched again; below it lie partial lines, indices and scales."""
_SIZES = "Count TCC_EA0_RDREQ_32B_sum, TCC_EA0_RDREQ_64B_sum and TCC_EA0_RDREQ_128B_sum (rocprofv3 --pmc): they tell each request's size"
_TRACE = "Give a trace with record_shapes of the same program beside the counters: kernels are matched by name and grid"


def judge(rec: Recording, _so_far: Answer) -> Answer:
    """Rows for every counted kernel, and what is fetched again."""
    if not len(rec.tables["counted"]):
        return Answer((CountersSection(Counters(None, "", (), ())),))
    groups, more = groups_of(rec, (*READS, *WRITES), READS)
    leasts = Leasts(rec)
    device, why = _device(rec)
    seen = [_seen(group, leasts.of(group), device) for group in groups]
    unknown = [why] if why else []
    if not seen:
        unknown.append(
            "no counter of the L2's requests to memory (TCC_EA0_RDREQ_sum and its sizes): bytes are not known"
        )
    if more:
        unknown.append(f"{more:,} more kernels and grids, of fewer reads")
    gfx = {group.gfx for group in groups}
    section = Counters(
        device.name if device else None, gfx.pop() if len(gfx) == 1 else "", tuple(s.row for s in seen), tuple(unknown)
    )
    return Answer((CountersSection(section),), tuple(_findings(seen)))


ANALYZER = Analyzer(title="Do kernels fetch more than they must?", order=47, judge=judge)


@dataclass(frozen=True, slots=True)
class _Seen:
    """A row and what it rests on."""

    row: CounterRow
    group: Group
    least: Least
    exact: bool


def _device(rec: Recording) -> tuple[Accelerator | None, str]:
    """The accelerator of the counter run, and why it is not known."""
    hosts = {(host.gfx, host.product, host.units, host.wave_size) for host in rec.meta.counter_hosts}
    if not hosts:
        found = device_of(rec)
        return found, "" if found else "the input does not say which accelerator it is, so no share of a peak"
    if len(hosts) > 1:
        return None, "counters of several accelerators: no share of a peak"
    gfx, product, units, wave = hosts.pop()
    named = re.fullmatch(r"gfx(\d+)(\d)[0-9a-f]", gfx)
    said = f"{product or gfx or 'an accelerator without a name'} with {units or 'unknown'} units"
    if named is None or units is None:
        return None, f"{said} is none of those whose peaks are known"
    major, minor = int(named[1]), int(named[2])
    names = (product, gfx) if product else (gfx,)
    found = next((one for name in names if (one := identify(name, units, major, minor, wave or 64))), None)
    return found, "" if found else f"{said} ({gfx}) is none of those whose peaks are known, so no share of a peak"


def _seen(group: Group, least: Least, device: Accelerator | None) -> _Seen:
    read, written = read_bytes(group.mean, group.gfx), written_bytes(group.mean)
    time_ns = next((group.time_ns[name] for name in READS if name in group.time_ns), None)
    rates = _rates(read, written, time_ns)
    peak = device.hbm_bytes_per_s.value if device else None
    notes = [least.why]
    if read is None:
        notes.append("reads were not counted")
    elif not read.exact:
        notes.append("sizes of the read requests were not counted")
    row = CounterRow(
        kernel=group.kernel,
        groups=group.groups,
        dispatches=group.dispatches,
        read_bytes_low=read.low if read else None,
        read_bytes_high=read.high if read else None,
        written_bytes_low=written.low if written else None,
        written_bytes_high=written.high if written else None,
        how=read.how if read else "",
        local_share=local_share(group.mean),
        time_ns=time_ns,
        bytes_per_s_low=rates[0],
        bytes_per_s_high=rates[1],
        peak_share_low=rates[0] / peak if rates[0] and peak else None,
        peak_share_high=rates[1] / peak if rates[1] and peak else None,
        shape=least.shape,
        least_read_bytes=least.bytes,
        refetch_low=read.low / least.bytes if read and least.bytes else None,
        refetch_high=read.high / least.bytes if read and least.bytes else None,
        note="; ".join(note for note in notes if note),
    )
    return _Seen(row, group, least, bool(read and read.exact))


def _rates(read: Moved | None, written: Moved | None, time_ns: float | None) -> tuple[float | None, float | None]:
    """Bytes per second, read and written; None where one of the two was not counted."""
    if read is None or written is None or not time_ns:
        return None, None
    return (read.low + written.low) / time_ns * 1e9, (read.high + written.high) / time_ns * 1e9


def _findings(seen: Sequence[_Seen]) -> Iterator[Finding]:
    used: set[str] = set()
    for one in seen:
        low, high = one.row.refetch_low, one.row.refetch_high
        if low is not None and high is not None and high > LIMIT:
            yield _refetch(one, _id(one, used), low, high)
    unknown = [one for one in seen if one.row.least_read_bytes is None and one.row.read_bytes_high]
    if unknown:
        yield _unproven(unknown)


def _refetch(one: _Seen, name: str, low: float, high: float) -> Finding:
    row, sure = one.row, low > LIMIT
    times = _span(low, high, "{:,.2f}")
    least = f"{row.least_read_bytes:,.0f} B that {row.shape} must ({one.least.how})"
    read = _span(row.read_bytes_low or 0.0, row.read_bytes_high or 0.0, "{:,.0f}")
    return Finding(
        id=name,
        question="bytes",
        verdict="refetched" if sure else "unproven",
        claim=f"{row.kernel} at {row.groups:,} workgroups reads {read} B a dispatch, {times} times the {least}",
        where=f"{row.dispatches:,} counted dispatches",
        evidence=(
            evidence(
                "counter_values",
                one.group.values,
                one.row.how,
                f"at most {LIMIT} times the least",
                count=row.dispatches,
            ),
        ),
        advice="Operands leave the L2 before their last use: change the order of the tiles (grouping, swizzle of workgroups over XCDs) "
        "or the tile, and count again"
        if sure
        else _SIZES,
        confidence="high" if sure and one.exact else "medium" if sure else "low",
    )


def _unproven(unknown: Sequence[_Seen]) -> Finding:
    first = max(unknown, key=lambda one: (one.row.read_bytes_high or 0.0) * one.row.dispatches)
    read = _span(first.row.read_bytes_low or 0.0, first.row.read_bytes_high or 0.0, "{:,.0f}")
    kernels = "1 counted kernel fetches" if len(unknown) == 1 else f"{len(unknown):,} counted kernels fetch"
    return Finding(
        id="counters.least_unknown",
        question="bytes",
        verdict="unproven",
        claim=f"whether {kernels} more than must be is not known: {first.row.kernel} reads {read} B a dispatch, and "
        f"{first.least.why}",
        where="counters",
        evidence=(
            evidence(
                "counter_values",
                [row for one in unknown for row in one.group.values[:1]],
                f"{sum(one.row.dispatches for one in unknown):,} dispatches",
                "the operation's shape",
            ),
        ),
        advice=_TRACE if all(one.exact for one in unknown) else f"{_TRACE}. {_SIZES}",
        confidence="low",
    )


def _span(low: float, high: float, form: str) -> str:
    return form.format(low) if low == high else f"{form.format(low)} to {form.format(high)}"


def _id(one: _Seen, used: set[str]) -> str:
    """Of the kernel's name and grid; a number behind it where two names look alike."""
    base = re.sub(r"\W+", "_", one.row.kernel, flags=re.ASCII).strip("_")[:48].lower()
    base = f"counters.refetch.{base or 'kernel'}.{one.row.groups}"
    name = next(n for i in range(1, len(used) + 2) if (n := base if i == 1 else f"{base}.{i}") not in used)
    used.add(name)
    return name
