"""Where the rules are from and how the server was understood, as the report says it."""

from __future__ import annotations

from pathlib import Path

from m3probe.model.recipe_report import BuildLine, SetupLine
from m3probe.recipe.setup_of import Made
from m3probe.schema.setup import Build, RuleStatus


def build_line(build: Build, named: str, tree: Path | None) -> BuildLine:
    """Rules per status; ``named``: the version as the tree states it, or as the user wrote it."""
    rules = build.rules
    counts: dict[str, int] = {}
    for rule in rules.values():
        counts[str(rule.status)] = counts.get(str(rule.status), 0) + 1
    lost = sorted(n for n, rule in rules.items() if not rule.known)
    read = any(rule.status is RuleStatus.CONFIRMED for rule in rules.values())
    source = "source tree" if read or tree else "bundled table" if rules else "none"
    return BuildLine(build.version, source, named, str(tree or ""), counts, tuple(lost))


def setup_line(made: Made) -> SetupLine:
    """The server as paths were asked about it."""
    it = made.setup
    return SetupLine(
        model=it.model.name,
        is_minimax_m3=it.model.is_minimax_m3,
        linear_quant=it.model.linear_quant,
        moe_quant=it.model.moe_quant,
        gpu=made.gpu.name,
        gfx=it.gfx,
        units=it.units,
        tp=it.tp,
        pp=it.pp,
        dp=it.dp,
        ep=it.ep,
        nodes=it.nodes,
        spec_tokens=it.spec_tokens,
    )
