"""``m3probe recipe`` for a terminal: what stops the engine first, then paths, all-reduce, shapes, memory, warnings."""

from __future__ import annotations

from collections.abc import Sequence

from m3probe.model.recipe_report import (
    AtPoint,
    MemoryLine,
    PathLine,
    RecipeReport,
    Segment,
    SetupLine,
    WorkPoint,
)
from m3probe.present._all_reduce import all_reduce
from m3probe.present._floors import floors
from m3probe.present._local_shapes import local_shapes
from m3probe.present._page import Page, Piece

LOOKS = {
    "refused_at_start": ("⊘", "refused at start", "bad"),
    "refused": ("–", "refused", "warn"),
    "unproven": ("?", "unproven", "dim"),
    "eligible": ("○", "eligible", "good"),
    "off": ("·", "off", "dim"),
}
ORDER = ("refused_at_start", "refused", "unproven", "eligible", "off")
_WIDE = 20
_SHOWN = 4
_MOST_CALLS = 2


def recipe_text(report: RecipeReport, width: int, color: bool, *, ascii_only: bool = False) -> str:
    """The answer in lines of at most ``width`` cells, without a newline at its end."""
    page = Page(width, color, ascii_only)
    _head(page, report)
    _stops(page, report)
    _warnings(page, report)
    _required(page, report)
    aside = "eligible is what the configuration allows; only a run can tell what executes"
    page.heading("fast paths", "as they would be if the engine started" if report.stops else aside)
    for line in sorted(report.paths, key=lambda line: ORDER.index(line.state)):
        if line.at and line.at[0].needs and line.state != "off":
            _path(page, line, 1 + report.setup.spec_tokens)
    _without_needs(page, report.paths)
    all_reduce(page, report.all_reduce, report.points)
    local_shapes(page, report.shapes, report.points)
    _memory(page, report.memory)
    floors(page, report.floors)
    _taken(page, report)
    return page.text()


def state(word: str) -> Piece:
    """A state as glyph and words; one that this version does not know keeps its spelling."""
    glyph, words, style = LOOKS.get(word, ("?", word, "dim"))
    return f"{glyph} {words}", style


def _head(page: Page, report: RecipeReport) -> None:
    page.say((report.setup.model or "no model named", "bold"), f" on {_layout(report.setup)}", hang=2)
    page.say((report.build.sentence, "dim"), hang=2)
    if report.build.lost:
        page.say((f"? rules that are not known here: {', '.join(report.build.lost)}", "warn"), hang=2)
    page.say(("workload ", "dim"), "; ".join(_step(point) for point in report.points), hang=2)


def _step(point: WorkPoint) -> str:
    return point.label if f"{point.rows:,} rows" in point.label else f"{point.label} = {point.rows:,} rows"


def _layout(it: SetupLine) -> str:
    parts = [f"{it.gpu} ({it.gfx})", f"TP{it.tp}"]
    parts += [f"PP{it.pp}"] * (it.pp > 1) + [f"DP{it.dp}"] * (it.dp > 1) + [f"EP{it.ep}"] * (it.ep > 1)
    parts += [f"linear {it.linear_quant or 'not known'}", f"experts {it.moe_quant or 'not known'}"]
    parts += [f"{it.spec_tokens} drafted tokens"] * bool(it.spec_tokens)
    return ", ".join(parts)


def _stops(page: Page, report: RecipeReport) -> None:
    for reason in report.stops:
        page.say(("⊘ the engine does not start: ", "bad bold"), reason, hang=2)


def _warnings(page: Page, report: RecipeReport) -> None:
    for line in report.warnings:
        where = f" ({line.where})" if line.where else ""
        page.say((f"! {line.text}{where}", "warn"), hang=2)


def _required(page: Page, report: RecipeReport) -> None:
    for text, holds, why in report.required:
        look = ("● required ", "good") if holds else ("✗ required ", "bad bold")
        page.say(look, (text, "bold"), f": {why}", hang=2)


def _without_needs(page: Page, lines: Sequence[PathLine]) -> None:
    """Paths that are off, or of another model: those of which the same is to be said share a line."""
    alike: dict[tuple[str, str], list[str]] = {}
    for line in lines:
        if line.state == "off" or not (line.at and line.at[0].needs):
            alike.setdefault((line.state, line.asked), []).append(line.title)
    for (word, asked), titles in sorted(alike.items(), key=lambda item: ORDER.index(item[0][0])):
        words, style = state(word)
        page.say((words.ljust(_WIDE), style), (", ".join(titles), "bold"), (f"  {asked}", "dim"), indent=2, hang=_WIDE)


def _path(page: Page, line: PathLine, each: int) -> None:
    words, style = _shown_state(line)
    page.say((words.ljust(_WIDE), style), (line.title, "bold"), (f"  {line.asked}", "dim"), indent=2, hang=_WIDE)
    below = 2 + _WIDE
    groups = _alike(line.at)
    for labels, at in groups:
        _at(page, labels if len(groups) > 1 or len(labels) == 1 else ["every step"], at, below)
    for phase, segments in line.by_phase.items():
        rows = each if phase == "decode" else 1
        unit = "requests" if phase == "decode" else "rows"
        if len(joined := _joined(segments, rows)) > 1:
            page.say((f"{phase} {unit}: {'; '.join(joined)}", "dim"), indent=below, hang=2)
    if line.state in ("refused", "unproven") and line.instead:
        page.say((f"instead: {line.instead}", "dim"), indent=below, hang=2)


def _shown_state(line: PathLine) -> Piece:
    """The worst state, unless the workload has steps for which the path is eligible, or may be."""
    for better, glyph in (("eligible", "○"), ("unproven", "?")):
        if line.state == "refused" and any(at.state == better for at in line.at):
            return f"{glyph} partly {better}", "warn"
    if line.state == "unproven" and any(at.state == "eligible" for at in line.at):
        return "○ partly eligible", "warn"
    return state(line.state)


def _alike(every: Sequence[AtPoint]) -> list[tuple[list[str], AtPoint]]:
    """Steps of one phase with the same state and the same needs refused or open share a line, with the first's numbers."""
    found: dict[tuple[object, ...], tuple[list[str], AtPoint]] = {}
    for at in every:
        needs = tuple(need.need for need in at.needs if need.held != "yes")
        phase = at.point.phase if needs else ""
        found.setdefault((phase, at.state, needs, tuple(at.expected.items())), ([], at))[0].append(at.point.label)
    return list(found.values())


def _said(at: AtPoint) -> str:
    refused = [need.text for need in at.needs if need.held == "no"]
    told = refused or [need.text for need in at.needs if need.held == "unknown"]
    calls = {name: n for name, n in at.expected.items() if n} if at.state == "eligible" else {}
    if told or not 0 < len(calls) <= _MOST_CALLS:
        return "; ".join(dict.fromkeys(told[:_SHOWN]))
    return f"{', '.join(f'{n:,} x {name}' for name, n in calls.items())} expected per step"


def _at(page: Page, labels: Sequence[str], at: AtPoint, indent: int) -> None:
    words, style = state(at.state)
    said = _said(at)
    head = f"{'; '.join(labels)}: "
    page.say(head, (words[2:], style), (f": {said}" if said else "", ""), indent=indent, hang=2)


def _joined(segments: Sequence[Segment], each: int) -> list[str]:
    """``1 to 1,365 refused``; neighbours with one state and other reasons are one stretch.

    A decode batch grows by whole requests of ``each`` rows, and is told in requests.
    """
    found: list[tuple[int, int, str]] = []
    for s in segments:
        first, last = -(-s.first // each), s.last // each
        if found and found[-1][2] == s.state:
            found[-1] = (found[-1][0], last, s.state)
        else:
            found.append((first, last, s.state))
    return [f"{first:,} to {last:,} {word.replace('_', ' ')}" for first, last, word in found]


def _memory(page: Page, line: MemoryLine | None) -> None:
    if line is None:
        return
    page.heading("caches", "bytes of one rank")
    total = line.main + line.index
    share = f", index keys are {line.index / total:.0%}" if line.index else ""
    page.say(f"{line.main:,} + {line.index:,} = {total:,} B per token (K and V + index keys{share})", indent=2, hang=2)
    if line.tokens_at_most is not None and line.weights is not None and line.budget is not None:
        page.say(
            f"at most {line.tokens_at_most:,} tokens: {line.budget / 1e9:,.1f} GB for vLLM - {line.weights / 1e9:,.1f} GB "
            "of weights; activations, graphs and drafts take more",
            indent=2,
            hang=2,
        )


def _taken(page: Page, report: RecipeReport) -> None:
    if report.assumed or report.untold:
        page.heading("taken for granted", "what nobody said")
    for text in report.assumed:
        page.say(text, indent=2, hang=2)
    for text in report.untold:
        page.say((f"? {text}", "warn"), indent=2, hang=2)
