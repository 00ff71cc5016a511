"""What a user says of a run beside its trace: sizes, the server's configuration, and what its answers were worth."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from m3probe.errors import UsageError
from m3probe.hardware import accelerators, identify
from m3probe.model.recipe_report import Difference, RecipeNote
from m3probe.model.recording import Meta, Recording
from m3probe.schema.gates import EvalRun, GateFacts, Score
from m3probe.schema.setup import Setup

if TYPE_CHECKING:
    from m3probe.recipe.asking import Server
    from m3probe.recipe.logged import Logged


AS_RESOLVED = "what the server itself resolved"
AS_LOGGED = "what the server's log says"
NO_ENVIRONMENT = "no log tells the environment: what hangs on a variable is unproven (--recipe FILE tells it)"
MOST_BYTES = 64 * 2**20
"""Of an evaluation or a file of cosines; lm-eval's results are a few hundred KiB, its samples lie beside them."""


@dataclass(frozen=True, slots=True)
class Quality:
    """Files: an evaluation, the same of a server known to be good, cosines with a float32 reference."""

    evaluation: Path | None = None
    baseline: Path | None = None
    cosines: Path | None = None


@dataclass(frozen=True, slots=True)
class Workload:
    """A model's config.json, the parallel sizes, the server, and the quality files."""

    model_config: Path | None = None
    tp: int | None = None
    ep: int | None = None
    server: Server | None = None
    quality: Quality = Quality()


def sizes_fit(tp: int | None, ep: int | None) -> None:
    """Whether both parallel sizes can be one server's.

    Raises:
        UsageError: they cannot.
    """
    for name, size in (("--tp", tp), ("--ep", ep)):
        if size is not None and size < 1:
            raise UsageError(f"{name} {size} is no number of ranks", next_move="Give 1 or more")
    if tp and ep and ep > 1 and ep % tp:
        raise UsageError(
            f"--ep {ep} contradicts --tp {tp}: vLLM spreads the experts over tensor x data parallel ranks",
            next_move=f"Give a multiple of {tp}, or 1 for none",
        )


def with_workload(rec: Recording, workload: Workload) -> Recording:
    """The recording with what the user said of it.

    Raises:
        UsageError: sizes that contradict the server's command.
        UnreadableInput: a file cannot be read.
    """
    told = rec.meta  # what guests of a live recording said stands where the user says nothing
    quality = _gate_facts(workload.quality)
    meta = replace(
        told,
        tp=workload.tp if workload.tp is not None else told.tp,
        ep=workload.ep if workload.ep is not None else told.ep,
        gates=replace(told.gates, run=quality.run, cosines=quality.cosines or told.gates.cosines),
    )
    if workload.model_config is not None:
        from m3probe.model.model_config import load_model_config

        meta = replace(meta, model=load_model_config(workload.model_config))
    rec = replace(rec, meta=meta)
    if workload.server is not None:
        return replace(rec, meta=_served(rec, workload.server, workload))
    meta = _resolved(meta) if meta.served else meta
    if meta.setup is None and meta.logs:
        meta = _by_log(replace(rec, meta=meta), workload)
    return replace(rec, meta=meta)


def _served(rec: Recording, server: Server, workload: Workload) -> Meta:
    """The command's sizes and model stand where the user gave none."""
    from m3probe.recipe import recipe, setup
    from m3probe.recipe.asking import ask_of

    meta = rec.meta
    ask = ask_of(server if server.gpu else replace(server, gpu=_device(meta)))
    made, known = setup(ask)
    _check_sizes(workload, made.setup, "command")
    judged = recipe(ask)
    note = RecipeNote(
        source=str(server.file or "the command"),
        build=judged.build,
        gpu=judged.setup.gpu,
        stops=judged.stops,
        warnings=judged.warnings,
        assumed=(*made.assumed, *judged.untold),
        differs=_differs(rec, made.setup),
    )
    return replace(
        meta,
        setup=made.setup,
        recipe=note,
        model=meta.model or known.config,
        tp=made.setup.tp,
        ep=made.setup.ep,
    )


def _resolved(meta: Meta) -> Meta:
    """What the running server said of itself stands in the place of a recipe."""
    from m3probe.recipe.lines import build_line

    setup = _running(meta)
    if setup is None:
        return meta
    process, name = meta.served[0].process, _device(meta)
    note = RecipeNote(
        source=AS_RESOLVED,
        build=build_line(setup.build, process.vllm, None),
        gpu=accelerators()[name].name if name else process.device_name or setup.gfx or "a device that is not known",
        stops=(),
        warnings=(),
        assumed=(),
    )
    return replace(meta, setup=setup, recipe=note)


def _running(meta: Meta) -> Setup | None:
    from m3probe.recipe.resolved import resolved

    name = _device(meta)
    return resolved(meta.served, next(iter(meta.devices), None), accelerators()[name] if name else None)


def _by_log(rec: Recording, workload: Workload) -> Meta:
    """What a server's log says of its configuration stands where neither a recipe nor the server itself does."""
    from m3probe.recipe.lines import build_line

    meta, found = rec.meta, _logged(rec, workload)
    if found is None:
        return meta
    setup, name = found.setup, _device(meta)
    _check_sizes(workload, setup, "log")
    note = RecipeNote(
        source=f"{AS_LOGGED} ({meta.logs[0].path})",
        build=build_line(setup.build, meta.logs[0].version, None),
        gpu=accelerators()[name].name if name else setup.gfx or "a device that is not known",
        stops=(),
        warnings=(),
        assumed=(*found.known.assumed, NO_ENVIRONMENT),
    )
    return replace(meta, setup=setup, recipe=note, model=meta.model or found.known.config, tp=setup.tp, ep=setup.ep)


def _logged(rec: Recording, workload: Workload) -> Logged | None:
    """None for a log that cannot be of the server that was recorded; ``analyze`` tells why."""
    from m3probe.model.log_match import contradictions
    from m3probe.recipe.logged import known_of_log, logged
    from m3probe.recipe.model_facts import known_model

    meta, name = rec.meta, _device(rec.meta)
    if not meta.logs or any(contradictions(log, rec) for log in meta.logs):
        return None
    model = None
    if workload.model_config is not None:
        told = known_of_log(meta.logs[0]).facts
        model = known_model(told.name, workload.model_config, told.linear_quant)
    return logged(meta.logs, next(iter(meta.devices), None), accelerators()[name] if name else None, model)


def _check_sizes(workload: Workload, setup: Setup, whose: str) -> None:
    for name, said, found in (("--tp", workload.tp, setup.tp), ("--ep", workload.ep, setup.ep)):
        if said is not None and said != found:
            raise UsageError(f"{name} {said} contradicts {found} of the server's {whose}", next_move="Leave it out")


def _differs(rec: Recording, asked: Setup) -> tuple[Difference, ...]:
    """What runs, by its own word, else by its log's."""
    from m3probe.recipe.differs import differences

    found = _running(rec.meta)
    if found is None and (logged := _logged(rec, Workload())) is not None:
        found = logged.setup
    return differences(asked, found) if found else ()


def _device(meta: Meta) -> str | None:
    """The trace's own device by its file name, where it is one that is known."""
    if not meta.devices:
        return None
    it = meta.devices[0]
    found = identify(it.name, it.units, it.compute_major, it.compute_minor, it.warp_size, memory_bytes=it.memory_bytes)
    return next((name for name, device in accelerators().items() if found and device.name == found.name), None)


def _gate_facts(quality: Quality) -> GateFacts:
    from m3probe.readers.eval_results import read_cosines
    from m3probe.readers.small_file import read_small

    if quality.baseline and not quality.evaluation:
        raise UsageError("--eval-baseline without --eval", next_move="Give the evaluation that it is held against")
    cosines = read_cosines(read_small(quality.cosines, MOST_BYTES), str(quality.cosines)) if quality.cosines else None
    return GateFacts(run=_run(quality), cosines=cosines)


def _run(quality: Quality) -> EvalRun | None:
    if quality.evaluation is None:
        return None
    scores = _scores(quality.evaluation)
    baseline = _scores(quality.baseline) if quality.baseline else ()
    same = next(((s, b) for s in scores for b in baseline if (s.task, s.metric) == (b.task, b.metric)), None)
    if baseline and same is None:
        raise UsageError(
            "evaluation and baseline have no task and metric in common",
            where=str(quality.baseline),
            next_move=f"The evaluation holds {', '.join(f'{s.task} {s.metric}' for s in scores[:3])}",
        )
    score, held_against = same or (scores[0], None)
    return EvalRun(score=score, baseline=held_against)


def _scores(path: Path) -> tuple[Score, ...]:
    from m3probe.readers.eval_results import read_scores
    from m3probe.readers.small_file import read_small

    return read_scores(read_small(path, MOST_BYTES), str(path))
