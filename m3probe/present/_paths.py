"""Question 4: fast paths, each with its verdict as glyph and word."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from m3probe.model.path_report import GateRow, PathRow, PathsSection, RecipeRow
from m3probe.present._numbers import plural
from m3probe.present._page import TIE, Page, Piece, items
from m3probe.schema.gates import GateState
from m3probe.schema.verdicts import PathVerdict

LOOKS: dict[str, tuple[str, str]] = {
    PathVerdict.EXECUTED: ("●", "good"),
    PathVerdict.MISSED: ("✗", "bad"),
    PathVerdict.DECLINED: ("–", ""),
    PathVerdict.UNEXPECTED: ("!", "warn"),
    # absence of evidence must not look like a mild pass
    PathVerdict.UNPROVEN: ("?", "dim"),
    PathVerdict.OFF: ("·", "dim"),
    PathVerdict.REFUSED_AT_START: ("⊘", "bad"),
}
ORDER = (
    PathVerdict.MISSED,
    PathVerdict.UNEXPECTED,
    PathVerdict.REFUSED_AT_START,
    PathVerdict.EXECUTED,
    PathVerdict.DECLINED,
    PathVerdict.UNPROVEN,
    PathVerdict.OFF,
)
LINES_SHOWN = 3


def paths(page: Page, section: PathsSection | None) -> None:
    """Every fast path: what was configured, what was eligible, what ran."""
    page.heading("4 paths", "configured is not eligible is not executed")
    if section is None:
        page.say("Not answered: the paths analyzer did not run.", indent=2)
        return
    if not section.paths:
        page.say("No fast path is known to this installation: the shelf m3probe/fastpaths is empty.", indent=2)
    _recipe(page, section.recipe)
    every = _shared(section.paths, len(section.paths))
    off = [row for row in section.paths if row.verdict == PathVerdict.OFF]
    fell_back = [row for row in section.paths if _only_fell_back(row)]
    unseen = [row for row in section.paths if row not in fell_back and _is_unseen(row, every)]
    short = [*off, *fell_back, *unseen]
    shown = sorted((row for row in section.paths if row not in short), key=lambda row: ORDER.index(row.verdict))
    some = _shared(shown, 2)
    wide = max((len(verdict(row.verdict)[0]) for row in section.paths), default=0) + 2
    for row in shown:
        _path(page, row, every | some, wide)
    _fallbacks(page, fell_back, wide)
    for rows in _alike(unseen):
        _unseen(page, rows, every, wide)
    for row in off:
        _off(page, row, wide)
    for reason, titles in (some | every).items():
        page.say((f"{'all' if reason in every else ', '.join(titles)}: {reason}", "dim"), indent=2, hang=2)
    _gates(page, section.gates)


def _recipe(page: Page, recipe: RecipeRow | None) -> None:
    """What the paths were held against, and what says that it is another server's."""
    if recipe is None:
        return
    page.say((f"held against {recipe.source}, for {recipe.gpu}; {recipe.rules}", "dim"), indent=2, hang=2)
    for text in (*recipe.contradicts, *recipe.warnings):
        page.say((f"! {text}", "warn"), indent=2, hang=2)
    for text in recipe.assumed:
        page.say((f"taken for granted: {text}", "dim"), indent=2, hang=2)


def _only_fell_back(row: PathRow) -> bool:
    """Nothing but a fallback ran, and no configuration says whether that is a miss."""
    ran = row.counts.get("fallback_calls") and not row.counts.get("calls")
    return bool(ran) and row.verdict == PathVerdict.UNPROVEN and row.configured == "unknown"


def _fallbacks(page: Page, rows: Sequence[PathRow], wide: int) -> None:
    if not rows:
        return
    said = [f"{row.title} ({row.variant}, {plural(row.counts['fallback_calls'], 'call')})" for row in rows]
    text, style = verdict(PathVerdict.UNPROVEN)
    head = "a fallback ran, and nothing says what was asked for (--recipe FILE does): "
    page.say((text.ljust(wide), style), (head, "dim"), items(said), indent=2, hang=wide)


def _off(page: Page, row: PathRow, wide: int) -> None:
    text, style = verdict(row.verdict)
    why = row.reasons[0].removeprefix("off") if row.reasons else ""
    page.say((text.ljust(wide), style), (row.title, "bold"), (why, "dim"), indent=2, hang=wide)


def _gates(page: Page, gates: Sequence[GateRow]) -> None:
    """Gates that were answered; one that nobody recorded a fact for is in --json alone."""
    for gate in gates:
        if gate.verdict is not GateState.UNPROVEN:
            broken = gate.verdict is GateState.BROKEN
            look = ("✗ broken", "bad bold") if broken else ("● holds", "good")
            page.say("gate ", look, (f" {gate.title}", "bold"), f": {gate.text}", indent=2, hang=2)


def _shared(rows: Sequence[PathRow], least: int) -> dict[str, list[str]]:
    """Reasons that several paths give, with the paths' titles: they are said once."""
    titles: dict[str, list[str]] = {}
    for row in rows:
        for reason in row.reasons:
            titles.setdefault(reason, []).append(row.title)
    return {reason: given for reason, given in titles.items() if len(given) >= max(least, 2)}


def _is_unseen(row: PathRow, every: Mapping[str, list[str]]) -> bool:
    """No sign of the path at all: no call anywhere, and one thing to say at most, steps that may hide one included."""
    signs = any(row.counts.get(key) for key in ("calls", "calls_outside_steps"))
    own = [reason for reason in row.reasons if reason not in every]
    return row.verdict == PathVerdict.UNPROVEN and not row.variant and not signs and len(own) <= 1


def _alike(rows: Sequence[PathRow]) -> list[list[PathRow]]:
    """Rows of which the same is to be said."""
    found: dict[tuple[tuple[str, ...], bool], list[PathRow]] = {}
    for row in rows:
        found.setdefault((row.reasons, row.names_from_source), []).append(row)
    return list(found.values())


def _unseen(page: Page, rows: Sequence[PathRow], every: Mapping[str, list[str]], wide: int) -> None:
    """One line for paths without a sign: a dense model has no sparse attention to be told of at length."""
    text, style = verdict(rows[0].verdict)
    own = [reason for reason in rows[0].reasons if reason not in every]
    own += ["kernel names known from source only"] if rows[0].names_from_source else []
    said = f": {'; '.join(own)}" if own else ""
    titles = ", ".join(row.title for row in rows)
    page.say((text.ljust(wide), style), (titles, "bold"), (said, "dim"), indent=2, hang=wide)


def verdict(word: str) -> Piece:
    """A verdict as glyph and words; a word this version does not know keeps its spelling."""
    glyph, style = LOOKS.get(word, ("?", "dim"))
    return f"{glyph} {word.replace('_', ' ')}", style


def _correct(row: PathRow) -> str:
    """Said of what ran once its gates have an answer."""
    if row.verdict != PathVerdict.EXECUTED or row.correct is GateState.UNPROVEN:
        return ""
    return "correct: its gates hold" if row.correct is GateState.HOLDS else "not correct: a gate is broken"


def _path(page: Page, row: PathRow, shared: Mapping[str, list[str]], wide: int) -> None:
    text, style = verdict(row.verdict)
    variant = f": {row.variant}" if row.variant else ""
    head: list[Piece] = [(text.ljust(wide), style), (f"{row.title}{variant}", "bold")]
    page.say(*head, indent=2, hang=wide)
    below = 2 + wide
    counts = _counts(row.counts)
    if counts:
        page.say(items(counts), indent=below, hang=2)
    if row.by_phase:
        page.say(*_by_phase(row), indent=below, hang=2)
    said = [*_said(row), *filter(None, (_correct(row),))]
    if said:
        page.say(items(said, "dim"), indent=below, hang=2)
    refused = "refused: " if row.verdict in {PathVerdict.DECLINED, PathVerdict.UNEXPECTED} else ""
    reasons = [refused + reason for reason in row.reasons if reason not in shared]
    for line in [*_first(reasons, "reason"), *_first(row.evidence, "line of evidence", "lines of evidence")]:
        page.say((line, "dim"), indent=below, hang=2)


def _first(lines: Sequence[str], one: str, many: str = "") -> list[str]:
    left = len(lines) - LINES_SHOWN
    return [*lines[:LINES_SHOWN], *([f"{plural(left, one, many)} more in --json"] if left > 0 else [])]


def _counts(counts: Mapping[str, int]) -> list[str]:
    """Over all phases: how many of the steps, then every other count that is not 0."""
    found = []
    if "steps" in counts and "executed" in counts:
        found.append(f"executed in {counts['executed']:,} of {plural(counts['steps'], 'step')}")
    told = {"steps", "executed"} if found else set()
    rest = {key: n for key, n in counts.items() if n and key not in told and "." not in key}
    return found + [f"{key.replace('_', ' ')} {n:,}" for key, n in rest.items()]


def _by_phase(row: PathRow) -> list[Piece]:
    found: list[Piece] = []
    for phase, word in row.by_phase.items():
        text, style = verdict(word)
        ran, steps = (row.counts.get(f"{phase}.{key}") for key in ("executed", "steps"))
        of = f"{TIE}{ran:,}/{steps:,}" if ran is not None and steps else ""
        found += [("   " if found else "", ""), (f"{phase}{TIE}", "dim"), (text.replace(" ", TIE), style), (of, "")]
    return found


def _said(row: PathRow) -> list[str]:
    """What is known beyond the kernels; nothing where that is nothing."""
    words = (("configured", row.configured), ("eligible", row.eligible))
    found = [f"{what}: {word}" for what, word in words if word not in {"", "unknown"}]
    return [*found, "kernel names known from source only"] if row.names_from_source else found
