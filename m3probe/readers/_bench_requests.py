"""What a detailed result keeps of each request (``--save-detailed``): lists of equal length -> columns.

A request that failed has an error text, no output and times of 0.0; it stands in the columns and in no figure.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import msgspec
import numpy as np

from m3probe.model.bench import BenchRequests
from m3probe.model.tables import Array
from m3probe.readers._bench_documents import Result
from m3probe.readers.repair import UNDECODABLE

LISTS = ("errors", "ttfts", "output_lens", "input_lens", "itls", "latencies", "start_times", "queue_times")
MOST_ERRORS = 50
"""Different error texts that are kept; the rest is one entry."""
_NS = 1e9
_LARGEST_S = 1e9
"""Seconds above this are damage: an int64 of ns holds 9.2e9."""
_NUMBERS = msgspec.json.Decoder(list[float | None])
_RAWS = msgspec.json.Decoder(list[msgspec.Raw])
_ROW = msgspec.json.Decoder(list[float])
_TEXTS = msgspec.json.Decoder(list[str | None])


@dataclass(frozen=True, slots=True)
class Kept:
    """The columns, the error texts with their counts, and all times between tokens of successful requests in ms.

    Args:
        odd: names of lists that are of another length than the rest, or hold something else: they are left out.
    """

    requests: BenchRequests | None
    errors: dict[str, int]
    itls_ms: Array | None = None
    odd: tuple[str, ...] = ()


def kept_of(result: Result) -> Kept:
    """What ``result`` keeps of its requests; without any list nothing is kept."""
    texts = _texts(result)
    errors = counted(texts) if texts is not None else {}
    numbers = {name: _numbers(result, name) for name in LISTS if name not in ("errors", "itls")}
    gaps = _gaps(result)
    sizes = Counter(len(values) for values in (*numbers.values(), gaps, texts) if values is not None)
    if not sizes or set(sizes) == {0}:
        return Kept(None, errors)
    size = sizes.most_common(1)[0][0]
    columns = {name: values for name, values in numbers.items() if values is not None and len(values) == size}
    texts = texts if texts is not None and len(texts) == size else None
    gaps = gaps if gaps is not None and len(gaps) == size else None
    usable = {*columns, *(["errors"] if texts is not None else ()), *(["itls"] if gaps is not None else ())}
    odd = tuple(name for name in LISTS if name not in usable and result.any(name) not in (None, []))
    success = _success(size, columns, texts)
    if success is None:
        return Kept(None, errors, odd=odd)
    requests = _requests(success, columns, gaps)
    return Kept(requests, errors, _itls(gaps, success), odd)


def counted(texts: list[str | None]) -> dict[str, int]:
    """Error texts by how often they occur; empty ones are no errors, and the rare ones of very many are one entry."""
    found = Counter(text.strip() for text in texts if text and text.strip()).most_common()
    rest = sum(count for _, count in found[MOST_ERRORS:])
    kept = dict(found[:MOST_ERRORS])
    return kept | ({f"{len(found) - MOST_ERRORS:,} other texts": rest} if rest else {})


def _texts(result: Result) -> list[str | None] | None:
    raw = result.values.get("errors")
    try:
        return None if raw is None else _TEXTS.decode(raw)
    except UNDECODABLE:
        return None


def _numbers(result: Result, name: str) -> Array | None:
    """float64, NaN for null."""
    raw = result.values.get(name)
    try:
        found = None if raw is None else _NUMBERS.decode(raw)
    except UNDECODABLE:
        return None
    return None if found is None else np.array([np.nan if v is None else v for v in found], dtype=np.float64)


def _gaps(result: Result) -> list[Array] | None:
    """Times between tokens in s, by request; one list at a time is held as objects."""
    raw = result.values.get("itls")
    try:
        return None if raw is None else [np.array(_ROW.decode(row), dtype=np.float64) for row in _RAWS.decode(raw)]
    except UNDECODABLE:
        return None


def _success(size: int, columns: dict[str, Array], texts: list[str | None] | None) -> Array | None:
    """Without error texts, a request that has no output, or no first token, did not succeed; None: nothing tells."""
    if texts is not None:
        good = np.array([not (text or "").strip() for text in texts], dtype=bool)
    elif "output_lens" in columns or "ttfts" in columns:
        good = np.ones(size, dtype=bool)
    else:
        return None
    # an older client wrote no text for a request that came back empty
    for name in ("output_lens", "ttfts"):
        if name in columns:
            good &= np.nan_to_num(columns[name]) > 0
    return good


def _requests(success: Array, columns: dict[str, Array], gaps: list[Array] | None) -> BenchRequests:
    ttft, e2e = _ns(columns.get("ttfts")), _ns(columns.get("latencies"))
    sums = None if gaps is None else _ns(np.array([row.sum() for row in gaps], dtype=np.float64))
    if e2e is None and ttft is not None and sums is not None:
        e2e = np.where((ttft >= 0) & (sums >= 0), ttft + sums, -1)
    return BenchRequests(
        success=success,
        start_ns=_ns(columns.get("start_times")),
        ttft_ns=_only(ttft, success),
        e2e_ns=_only(e2e, success),
        queue_ns=_ns(columns.get("queue_times")),
        input_tokens=_whole(columns.get("input_lens")),
        output_tokens=_whole(columns.get("output_lens")),
        itl_sum_ns=_only(sums, success),
        itl_count=None if gaps is None else np.array([len(row) for row in gaps], dtype=np.int64),
    )


def _itls(gaps: list[Array] | None, success: Array) -> Array | None:
    rows = [] if gaps is None else [row for row, good in zip(gaps, success.tolist(), strict=True) if good and len(row)]
    return np.concatenate(rows) * 1e3 if rows else None


def _ns(seconds: Array | None) -> Array | None:
    """int64 ns, -1 for what is no time."""
    if seconds is None:
        return None
    good = (seconds >= 0) & (seconds < _LARGEST_S)
    return np.where(good, np.rint(np.where(good, seconds, 0) * _NS), -1).astype(np.int64)


def _only(times: Array | None, success: Array) -> Array | None:
    """Times of failed requests were never measured: 0.0 is what the client began with."""
    return None if times is None else np.where(success, times, -1)


def _whole(values: Array | None) -> Array | None:
    if values is None:
        return None
    good = (values >= 0) & (values < 2**53)
    return np.where(good, np.where(good, values, 0), -1).astype(np.int64)
