"""One fast path of the catalogue as it stands there: what ``m3probe recipe --explain PATH`` prints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from m3probe.present._page import Page
from m3probe.schema.paths import FastPath, Role, Variant


def path_card(
    name: str, path: FastPath, gates: Mapping[str, str], width: int, color: bool, *, ascii_only: bool = False
) -> str:
    """The entry in lines of at most ``width`` cells.

    Args:
        gates: titles by name, of the gates that the path names.
    """
    page = Page(width, color, ascii_only)
    page.say((path.title, "bold"), (f"  {name}", "dim"), hang=2)
    page.say(path.question, hang=2)
    _block(page, "asked for by", [path.configured, f"default: {path.default}"])
    phases = ", ".join(str(phase) for phase in path.phases)
    _block(page, "needs", [f"{need.text} (asked at {need.when})" for need in path.needs], aside=f"phases: {phases}")
    page.heading("evidence", "kernels that only run when it does")
    for variant in path.variants:
        _variant(page, variant)
    _block(page, "instead", [path.instead])
    _block(
        page,
        "gates",
        [f"{gate}: {gates.get(gate, 'no such gate')}" for gate in path.gates],
        aside="before it is correct",
    )
    changed = f"{path.other_work} changes the model's work: no speed-up under one contract" if path.other_work else ""
    _block(page, "measured", [*(f"{effect.text} ({effect.source})" for effect in path.effects), changed])
    _block(page, "log lines", path.logs, aside="selection, never execution")
    _block(page, "functions", path.functions)
    _block(page, "sources", path.sources)
    return page.text()


def _block(page: Page, title: str, lines: Iterable[str], aside: str = "") -> None:
    said = [line for line in lines if line]
    if not said:
        return
    page.heading(title, aside)
    for line in said:
        page.say(line, indent=2, hang=2)


def _variant(page: Page, variant: Variant) -> None:
    seen = "names read in source only" if variant.names_from_source else "seen in real traces"
    versions = f", vLLM {variant.vllm}" if variant.vllm else ""
    kind = "fast" if variant.role is Role.FAST else "fallback"
    page.say((variant.name, "bold"), (f"  {kind}{versions}; {seen}", "dim"), indent=2, hang=2)
    lines = {
        "a call": ", ".join(variant.anchors) or "no kernel of its own",
        "also": ", ".join(variant.also),
        "beside": ", ".join(variant.beside),
        "per step": variant.calls_per_step,
        "source": variant.source,
        "note": variant.note,
    }
    for word, text in lines.items():
        if text:
            page.say((f"{word}: ", "dim"), text, indent=4, hang=2)
