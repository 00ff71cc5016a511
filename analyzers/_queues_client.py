"""The client's side beside the server's: which queue holds the requests in flight, and how many vLLM never sees."""

from __future__ import annotations

from collections.abc import Iterator

from m3probe.analyzers._bench_joined import believed
from m3probe.analyzers._queues_admission import ADMISSION, ELSEWHERE, KV_CAPACITY, Held, held_by, sides_of
from m3probe.analyzers._queues_evidence import of_line, of_run, of_took
from m3probe.analyzers._queues_rows import only_run, outside_s
from m3probe.analyzers._queues_servers import PREFILL, Server, servers_seen
from m3probe.analyzers._queues_shape import DRAINS, EMPTY, LEAST_FOR_TREND, ROSE_AND_FELL
from m3probe.analyzers._view import percent
from m3probe.model.bench import BenchRun, LittleLaw, little
from m3probe.model.findings import Bound, Evidence, Finding, figure
from m3probe.model.recording import Recording

LATENCY = "request latency"
"""What these bounds are shares of: the mean time of a request from sending to its last token."""
PREFILL_SHARE, DECODE_SHARE = 0.5, 0.8
"""Shares of the concurrency above which a queue holds most of a run (facts of two published P/D runs: 88 % and 90 %)."""
HIDDEN = 0.10
_KNOWN = "faster kernels of decode change nothing here"
_UNKNOWN = (
    "if it is prefill, faster kernels of decode change nothing here. Metrics of the server would tell prefill from admission: "
    "vllm:request_queue_time_seconds beside vllm:request_prefill_time_seconds, and vllm:kv_cache_usage_perc"
)
LEAST_SURE = 20
"""Samples from which on a peak between two of them is unlikely."""


def client_findings(rec: Recording) -> Iterator[Finding]:
    """Of each run which queue holds its requests; of the only one also what is outside vLLM."""
    servers = servers_seen(rec)
    alone = only_run(rec) is not None
    for place, run in enumerate(rec.meta.bench):
        yield from _holds(place, run, servers if alone else [])
    run_seen = only_run(rec)
    if run_seen is not None and run_seen.closed_loop:
        yield from _hidden(run_seen, servers)


def _holds(place: int, run: BenchRun, servers: list[Server]) -> Iterator[Finding]:
    law = little(run)
    of = run.max_concurrency if run.closed_loop else law.in_flight
    if law.waiting is None or law.decoding is None or not of or not law.in_flight or not _usable(run):
        return
    if law.waiting > PREFILL_SHARE * of:
        held = held_by(servers, law.ttft_ms or 0.0)
        make = _admission if held.verdict in (ADMISSION, KV_CAPACITY) else _prefill
        if held.verdict != ELSEWHERE:
            yield make(place, run, law, of, servers, held)
    elif law.decoding > DECODE_SHARE * of:
        yield _decode(place, run, law, of)


def _usable(run: BenchRun) -> bool:
    return run.comparable and believed(run)


def _said(run: BenchRun, law: LittleLaw, of: float) -> str:
    """Both latencies together: a P/D system has two goals."""
    return (
        f"{_few(law.waiting)} of {of:,.0f} requests in flight wait for their first token and {_few(law.decoding)} decode "
        f"(TTFT {law.ttft_ms or 0:,.0f} ms {law.ttft_of}, TPOT {law.tpot_ms or 0:,.2f} ms {law.tpot_of}, "
        f"{law.request_throughput or 0:,.2f} requests/s{_gpus(run)})"
    )


def _few(number: float | None) -> str:
    return "?" if number is None else f"{number:,.1f}" if number < 10 else f"{number:,.0f}"


def _gpus(run: BenchRun) -> str:
    if run.prefill_gpus is not None and run.decode_gpus is not None:
        return f", {run.prefill_gpus} prefill and {run.decode_gpus} decode GPUs"
    return f", {run.num_gpus} GPUs" if run.num_gpus else ""


def _bound(part: float, law: LittleLaw, what: str) -> Bound:
    formula = f"{what}, of TTFT + TPOT x (output tokens - 1), if it took no time"
    whole = law.in_flight or 1.0
    worked = f"{figure(part, 'requests')} / {figure(whole, 'requests')}"
    return Bound(0.0, part / whole, formula, LATENCY, (worked,))


def _prefill(place: int, run: BenchRun, law: LittleLaw, of: float, servers: list[Server], held: Held) -> Finding:
    rows = _rows(place, law)
    beside, sure = _at_servers(servers, rows)
    rows += held.rows
    sure = sure and (held.verdict == PREFILL or any(server.role == PREFILL for server in servers))
    beside += f"; {held.why}" if held.why else ""
    split = run.disaggregated is not False
    return Finding(
        id=f"queues.prefill.{place}",
        question="queues",
        verdict="prefill",
        claim=f"{run.name}: the prefill queue holds the run: {_said(run, law, of)}{beside}; prefill capacity is short, not decode",
        where=run.name,
        evidence=tuple(rows),
        advice=(
            "Add prefill workers or re-ratio prefill to decode GPUs"
            if split
            else "Raise the prefill token budget, or add replicas"
        )
        + f", or admit fewer requests; {_KNOWN if held.verdict else _UNKNOWN}. Capacity test: arrivals x prompt tokens "
        "against the prefill tokens a second that the workers reach",
        bound=_bound(law.waiting or 0.0, law, "TTFT"),
        confidence="high" if sure else "medium",
    )


def _admission(place: int, run: BenchRun, law: LittleLaw, of: float, servers: list[Server], held: Held) -> Finding:
    """Requests wait before prefill begins; the bound is of their time in the server's queue."""
    rows = _rows(place, law)
    beside, sure = _at_servers(servers, rows)
    whole_s = (law.in_flight or 0.0) / (law.request_throughput or 1.0)
    bound = None
    if held.queue_s is not None and whole_s > 0:
        what = "the server's queue time, of TTFT + TPOT x (output tokens - 1), if it took no time"
        worked = f"min({figure(held.queue_s, 's')} / {figure(whole_s, 's')}, 1)"
        bound = Bound(0.0, min(held.queue_s / whole_s, 1.0), what, LATENCY, (worked,))
    return Finding(
        id=f"queues.admission.run.{place}",
        question="queues",
        verdict=held.verdict,
        claim=f"{run.name}: the admission queue holds the run: {_said(run, law, of)}{beside}; {held.why}; what is short: {held.short}",
        where=run.name,
        evidence=(*rows, *held.rows),
        advice=held.advice,
        bound=bound,
        confidence="high" if sure and bound is not None else "medium",
    )


def _rows(place: int, law: LittleLaw) -> list[Evidence]:
    return [of_run(place, f"{law.waiting:,.1f} = {law.request_throughput:,.3f}/s x {law.ttft_ms:,.0f} ms")]


def _at_servers(servers: list[Server], rows: list[Evidence]) -> tuple[str, bool]:
    """What the prefill side's own queue says, where its pages are there: it does not drain while requests wait."""
    waits = [server.waiting for server in sides_of(servers) if server.waiting is not None and server.waiting.most > 0]
    rows += [of_line(part, part.text("waiting")) for part in waits]
    if not waits:
        return "", False
    sure = all(part.trend not in {DRAINS, EMPTY, ROSE_AND_FELL} for part in waits)
    return f"; its server shows {waits[0].text('waiting')}", sure


def _decode(place: int, run: BenchRun, law: LittleLaw, of: float) -> Finding:
    return Finding(
        id=f"queues.decode.{place}",
        question="queues",
        verdict="decode",
        claim=f"{run.name}: decode holds the run: {_said(run, law, of)}; no prompt queue, the decode step's time decides",
        where=run.name,
        evidence=(of_run(place, f"{law.decoding:,.1f} decoding, {law.waiting:,.1f} waiting for their first token"),),
        advice="Look at the decode step (questions shapes, repeats, paths) and at its batch; more prefill workers change nothing. "
        "TTFT and TPOT are two goals: publish both, and claim no speed-up between different GPU counts",
        bound=_bound(law.decoding or 0.0, law, "TPOT x (output tokens - 1)"),
        confidence="medium",
    )


def _hidden(run: BenchRun, servers: list[Server]) -> Iterator[Finding]:
    """Client concurrency less what vLLM holds, at its fullest: what is missing then is outside for certain."""
    parts = [server.inside for server in servers]
    known = [part for part in parts if part is not None]
    of = run.max_concurrency
    if not known or len(known) < len(parts) or not of:
        return
    most = sum(part.most for part in known)
    outside = of - most
    if outside <= HIDDEN * of or most <= 0 or min(len(part.values) for part in known) < LEAST_FOR_TREND:
        return
    waits = outside_s(servers[0], run) if len(servers) == 1 and believed(run) else None
    rows = [
        of_run(0, f"{of:,} in flight at the client"),
        *(of_line(part, f"at most {part.most:,.0f} inside") for part in known),
    ]
    beside, bound = "", None
    if waits is not None:
        law = little(run)
        rows.append(of_took(servers[0].took["ttft"], "TTFT as the server sees it"))
        beside = (
            f"; the client's mean TTFT is {run.ttft.mean_ms or 0:,.0f} ms, the server's {servers[0].took['ttft'].mean_s * 1e3:,.0f} ms: "
            f"{waits * 1e3:,.0f} ms of it are outside"
        )
        whole = (law.in_flight or 0.0) / (law.request_throughput or 1.0)
        if whole > 0:
            formula = "(client TTFT - server TTFT) of TTFT + TPOT x (output tokens - 1)"
            worked = f"min({figure(waits, 's')} / {figure(whole, 's')}, 1)"
            bound = Bound(0.0, min(waits / whole, 1.0), formula, LATENCY, (worked,))
    yield Finding(
        id="queues.outside_vllm",
        question="queues",
        verdict="outside_vllm",
        claim=f"{percent(outside / of)} of the requests in flight are outside vLLM: the client keeps {of:,}, and vLLM never held more "
        f"than {most:,.0f} running and waiting ({outside:,.0f} hidden){beside}",
        where=run.name,
        evidence=tuple(rows),
        advice="Look between client and engine: the proxy or router, connection limits, the API server's one core, the client itself. "
        "No kernel and no scheduler setting reaches these requests",
        bound=bound,
        confidence="high" if min(len(part.values) for part in known) >= LEAST_SURE else "medium",
    )
