"""Queue lengths over time: live from gauges, else from samples that the recording kept; scales begin at 0 and are said."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from m3probe.model.log_tables import AGGREGATED
from m3probe.model.recording import Recording
from m3probe.model.tables import Array
from m3probe.model.view import Gauge, View
from m3probe.present._numbers import fixed
from m3probe.present.sheets._gauges import figure
from m3probe.present.sheets.sheet import Curve

LIVE = ("waiting", "running", "kv_usage", "ttft_p50_ms", "tpot_p50_ms", "itl_p50_ms", "queued_p50_ms")
"""Gauges that are drawn, in this order, where the feed gives them."""
RECORDED = re.compile(r"(?:vllm:)?num_requests_(waiting|running)(:max)?(?:\{(.*)\})?")
MOST_CURVES = 6
MOST_POINTS = 600
SECOND = 1e9
Series = tuple[str, Array, Array]
"""Title, seconds, values."""


def curves(view: View) -> tuple[Curve, ...]:
    """Curves of live figures that kept their last values, else recorded ones."""
    drawn = [view.gauges[name] for name in LIVE if name in view.gauges and view.gauges[name].recent]
    if drawn:
        return tuple(_live(gauge) for gauge in drawn)
    return tuple(recorded(view.recording)) if view.recording is not None else ()


def _live(gauge: Gauge) -> Curve:
    """The last values of one gauge: seconds before now run to the left, a gap stays a gap."""
    points = tuple((-before, value) for before, value in gauge.recent)
    most = max((value for _, value in gauge.recent if value is not None), default=gauge.low)
    high = gauge.high if gauge.high is not None else max(most, gauge.low + 1.0)
    shown, unit = figure(gauge)
    now = shown if gauge.value is None else f"{shown} {unit}"
    age = "" if gauge.age_s is None else f", {fixed(gauge.age_s, 1)} s old"
    title = f"{gauge.title} ({gauge.scope}{age})"
    return Curve(title, points, gauge.low, high, gauge.unit, now, tuple(-before for before in gauge.resets))


def recorded(rec: Recording) -> Iterator[Curve]:
    """Waiting and running requests of each file and engine, from guests' samples, metrics pages and the server's log."""
    found = [*_guests(rec), *_pages(rec), *_logged(rec)]
    for title, at_s, values in sorted(found, key=lambda one: one[0])[:MOST_CURVES]:
        points = thinned(at_s, values)
        high = max([1.0, *(value for _, value in points if value is not None)])
        yield Curve(f"{title} (recorded)", points, 0.0, high, "requests", f"most {fixed(high_of(points))}")


def high_of(points: tuple[tuple[float, float | None], ...]) -> float | None:
    """The largest known value; None where none is."""
    return max((value for _, value in points if value is not None), default=None)


def _guests(rec: Recording) -> Iterator[Series]:
    """Samples of each engine in a live recording.

    Where a guest kept the most between two samples, that is drawn: a queue that filled and emptied in between is
    not seen otherwise.
    """
    table = rec.tables["samples"]
    best: dict[tuple[str, str], tuple[int, re.Match[str]]] = {}
    for name in sorted(set(table["name"].tolist())):
        match = RECORDED.fullmatch(rec.strings[name])
        key = (match[1], _engine(match)) if match else None
        if match and key and (key not in best or (match[2] and not best[key][1][2])):
            best[key] = (name, match)
    for name, match in best.values():
        mine = table["name"] == name
        for file in sorted(set(table["file"][mine].tolist())):
            rows = (mine & (table["file"] == file)).nonzero()[0]
            # several sources may say the same value: one of them is enough for a curve
            rows = rows[table["source"][rows] == table["source"][rows[0]]]
            yield _title(match, ""), table["mono_ns"][rows] / SECOND, table["value"][rows]


def _pages(rec: Recording) -> Iterator[Series]:
    """Metrics pages of one server whose times are known; a single page makes no curve."""
    table, scrapes = rec.tables["metrics"], rec.tables["scrapes"]
    for series in sorted(set(table["series"].tolist())):
        match = RECORDED.fullmatch(rec.strings[series])
        if match is None:
            continue
        rows = (table["series"] == series).nonzero()[0]
        page = table["scrape"][rows]
        for server in sorted(set(scrapes["server"][page].tolist())):
            mine = (scrapes["server"][page] == server) & (scrapes["at_ns"][page] >= 0)
            yield _title(match, rec.strings[server]), scrapes["at_ns"][page[mine]] / SECOND, table["value"][rows[mine]]


def _logged(rec: Recording) -> Iterator[Series]:
    """Statistics lines of each log and engine whose times are known."""
    table = rec.tables["log_stats"]
    for file in sorted(set(table["file"].tolist())):
        of = f"log {rec.files[file].path.rsplit('/', 1)[-1]}"
        for engine in sorted(set(table["engine"][table["file"] == file].tolist())):
            mine = (table["file"] == file) & (table["engine"] == engine) & (table["at_ns"] >= 0)
            whose = f"{of}, engine {engine}" if engine >= 0 else f"{of}, all engines" if engine == AGGREGATED else of
            for name in ("running", "waiting"):
                yield f"Requests {name}, {whose}", table["at_ns"][mine] / SECOND, table[name][mine]


def _engine(match: re.Match[str]) -> str:
    found = re.search(r'engine="?(\w+)', match[3] or "")
    return found[1] if found else ""


def _title(match: re.Match[str], server: str) -> str:
    most = ", the most between two samples" if match[2] else ""
    engine = f"engine {_engine(match)}" if _engine(match) else ""
    of = " ".join(filter(None, (server, engine)))
    return f"Requests {match[1]}{most}{f', {of}' if of else ''}"


def thinned(at_s: Array, values: Array) -> tuple[tuple[float, float | None], ...]:
    """(seconds since the first, value) in order of time; of many points the largest of each stretch, so that no peak is lost."""
    if len(at_s) < 2:
        return ()
    order = at_s.argsort(kind="stable")
    at, shown = (at_s[order] - at_s[order][0]).tolist(), values[order].tolist()
    each = -(-len(at) // MOST_POINTS)
    stretches = ((at[begin], shown[begin : begin + each]) for begin in range(0, len(at), each))
    return tuple((begin, max(filter(math.isfinite, part), default=None)) for begin, part in stretches)
