"""What a user must be told of a run before any of its figures: failures, losses, and what it cannot have measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from m3probe.model.bench import ITL, TPOT, BenchRun
from m3probe.model.recording import Note


def notes_of(runs: Sequence[BenchRun], path: str) -> list[Note]:
    """Notes on the runs of one file; a run is named where the file holds several."""
    return [
        Note(word, f"run {run.index + 1}: {text}" if len(runs) > 1 else text, path, count)
        for run in runs
        for word, text, count in (*_requests(run), *_latencies(run), *_negative(run))
    ]


def _requests(run: BenchRun) -> Iterator[tuple[str, str, int]]:
    failed, missing = run.failed or 0, run.requests_missing or 0
    if run.completed == 0:
        text = (
            "no successful request" + (f": {failed:,} failed" if failed else "") + ", so that no latency was measured"
        )
        yield "no_success", text, max(failed, 1)
    elif failed:
        asked = f"{failed:,} of {(run.completed or 0) + failed:,} requests failed" if run.completed is not None else ""
        text = f"{asked or f'{failed:,} request(s) failed'}: figures are of the others"
        yield "failed_requests", text, failed
    if missing > 0:
        text = f"{missing:,} of {run.num_prompts:,} requests neither completed nor failed"
        yield "requests_missing", text, missing


def _latencies(run: BenchRun) -> Iterator[tuple[str, str, int]]:
    if run.odd_lists:
        text = f"lists that are of another length than the others, or hold something else, left out: {', '.join(run.odd_lists)}"
        yield "odd_lists", text, len(run.odd_lists)
    tokens = run.mean_output_tokens
    if run.completed != 0 and tokens is not None and tokens <= 1 and not {TPOT, ITL} & set(run.latencies):
        yield "one_output_token", "TPOT/ITL not measurable with one output token", 1
    for name, value in run.stated.items():
        metric = name.removeprefix("mean_").removesuffix("_ms")
        own = run.latencies[metric].mean_ms if metric in run.latencies else None
        if own is not None:
            text = (
                f"the file's mean {metric.upper()} of {value:,.3f} ms is not that of its successful requests, "
                f"{own:,.3f} ms: the latter is used"
            )
            yield "mean_differs", text, 1


def _negative(run: BenchRun) -> Iterator[tuple[str, str, int]]:
    if run.negative:
        text = f"below 0, which no such figure can be, and read as not known: {', '.join(run.negative)}"
        yield "negative", text, len(run.negative)
