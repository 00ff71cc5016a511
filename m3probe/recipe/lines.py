"""Where the rules are from and how the server was understood, as the report says it."""

from __future__ import annotations

from pathlib import Path

from m3probe.model.recipe_report import BuildLine, SetupLine
from m3probe.recipe.setup_of import Made
from m3probe.schema.setup import Build, RuleStatus
from m3probe.vllm_source import summary


def build_line(build: Build, named: str, tree: Path | None) -> BuildLine:
    """Rules per status; ``named``: the version as the tree states it, or as the user wrote it."""
    counted = summary(build).counts if build.rules else {}
    counts = {str(status): n for status, n in counted.items() if n}
    lost = sorted(name for name, rule in build.rules.items() if not rule.known)
    read = bool(counted.get(RuleStatus.CONFIRMED))
    source = "source tree" if read or tree else "bundled table" if build.rules else "none"
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
