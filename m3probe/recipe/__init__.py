"""``m3probe recipe``: a command line and an environment, judged without running anything.

Input side: ``read`` finds the command (``asked.py``). Then ``setup_of`` makes a Setup of it, ``judge`` asks every fast
path, ``all_reduce``, ``sizes`` and ``warnings`` add what follows from it, and ``recipe`` puts the report together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from m3probe.model.recipe_report import RecipeReport, Warned
from m3probe.recipe.all_reduce import ranges
from m3probe.recipe.asked import Given
from m3probe.recipe.env_values import refused
from m3probe.recipe.floors import floor_lines
from m3probe.recipe.judge import judged, stops
from m3probe.recipe.lines import build_line, setup_line
from m3probe.recipe.model_facts import Known, known_model
from m3probe.recipe.points import limits, over_budget, workload
from m3probe.recipe.regime import crowded, slower
from m3probe.recipe.required import required
from m3probe.recipe.setup_of import Made, make
from m3probe.recipe.sizes import illegal, memory, shapes, unfit
from m3probe.recipe.tuned import Tables, with_tuned
from m3probe.recipe.warnings import warned
from m3probe.schema.setup import Build
from m3probe.vllm_source import bundled_versions


@dataclass(frozen=True, slots=True)
class Ask:
    """Everything the user said beside the command itself.

    Args:
        named: the build's version as its tree states it, or as the user wrote it.
        gpu: accelerator by file name; None: MI355X.
        concurrency: requests that decode together.
        isl: tokens of a prompt.
        osl: tokens of an answer.
        drafts: drafted tokens, when the command does not say.
        require: ``PATH`` or ``PATH:phase``, which must be eligible.
        tables: tuned tables that were read.
    """

    given: Given
    build: Build
    named: str = ""
    tree: Path | None = None
    model_config: Path | None = None
    gpu: str | None = None
    concurrency: Sequence[int] = ()
    isl: int | None = None
    osl: int | None = None
    drafts: int | None = None
    require: Sequence[str] = ()
    tables: Tables = field(default_factory=dict)


def setup(ask: Ask) -> tuple[Made, Known]:
    """The setup that fast paths are judged by, and what is known of its model.

    Raises:
        UsageError: a size, GPU or number of drafts that cannot be.
        UnreadableInput: the model config.
    """
    known = known_model(ask.given.model, ask.model_config, _text(ask.given.flags.get("--quantization")))
    made = make(ask.given, ask.build, known, ask.gpu, ask.drafts)
    return replace(made, setup=replace(made.setup, tuned_tables=dict(ask.tables))), known


def recipe(ask: Ask) -> RecipeReport:
    """The whole answer.

    Raises:
        UsageError: a size, GPU, number of drafts or required path that cannot be.
        UnreadableInput: the model config.
    """
    made, known = setup(ask)
    most = limits(made.setup, made.gpu)
    points = workload(made.setup, most, ask.concurrency, ask.isl)
    lines = judged(made.setup, points, most)
    by_id = {line.id: line for line in lines}
    layout = illegal(known.config, made.setup)
    stopped = (*((f"TP{made.setup.tp} EP{made.setup.ep}: {layout}",) if layout else ()), *stops(lines))
    stopped = (*stopped, *over_budget(made.setup), *refused(made.setup, ask.given.origins, stopped))
    local = with_tuned(shapes(known.config, made.setup, points, by_id), made.setup, points)
    held = memory(known.config, made.setup, made.gpu.hbm_bytes.value, by_id)
    stopped = (*stopped, *unfit(made.setup, held))
    return RecipeReport(
        build=build_line(ask.build, ask.named, ask.tree),
        setup=setup_line(made),
        points=points,
        stops=stopped,
        paths=lines,
        all_reduce=ranges(made.setup, points),
        shapes=local,
        memory=held,
        floors=floor_lines(known.config, made.setup, made.gpu, points, by_id, _context(ask)),
        warnings=(
            *warned(made.setup, ask.given.origins),
            *crowded(ask.concurrency, (ask.isl or 0) + (ask.osl or 0), most, held.tokens_at_most if held else None),
            *slower(ask.concurrency, ask.isl, by_id["aiter_sparse_pa"]),
            *(Warned("note", note) for note in ask.given.notes),
        ),
        assumed=(*made.assumed, *most.assumed, *_guessed(ask), *_without_rules(ask)),
        untold=(*ask.given.untold, *_uncertain(ask.given)),
        required=required(ask.require, by_id, stopped, ask.given.any_flag),
    )


def _context(ask: Ask) -> int | None:
    """Key tokens of a request half way through its answer; None where nobody says the length of a prompt."""
    return None if ask.isl is None else ask.isl + (ask.osl or 0) // 2


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


MOST_OPEN = 20


def _uncertain(given: Given) -> tuple[str, ...]:
    """What only some condition of the input decides; the paths that hang on it are unproven."""
    told = " ".join(given.untold)
    left = [name for name in given.uncertain if name not in told]
    lines = [f"{name} hangs on a condition of the input: --env-file can settle it" for name in left[:MOST_OPEN]]
    return (*lines, *([f"and {len(left) - MOST_OPEN:,} more settings"] if len(left) > MOST_OPEN else []))


def _guessed(ask: Ask) -> tuple[str, ...]:
    return () if ask.concurrency else ("decode batches of 1, 16, 64 and 128 requests (give --concurrency)",)


def _without_rules(ask: Ask) -> tuple[str, ...]:
    if ask.build.rules:
        return ()
    tables = ", ".join(bundled_versions())
    return (
        f"no rule of vLLM: --vllm takes {tables}, each for exactly that release; --vllm-path DIR reads a source tree",
    )
