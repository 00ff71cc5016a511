"""Steps as a worker executes them: two hooks a step in eager mode, one more for the dispatch, one a replayed graph."""

from __future__ import annotations

from collections import deque
from time import monotonic_ns
from typing import TYPE_CHECKING, Any

from m3probe.collectors._descriptors import Descriptors, mode_name
from m3probe.collectors._now import NOW
from m3probe.collectors._patch import Make, around
from m3probe.collectors._steps_count import Done
from m3probe.collectors._steps_plan import EMPTY, Plan, plan_of
from m3probe.schema.roles import Role, Stage

if TYPE_CHECKING:
    from m3probe.collectors._probe import Probe

MOST_WAITING = 100_000
"""Finished steps between two ticks; the writer's thread takes them each second."""


class WorkerSteps:
    """The hooks of one worker, and the finished steps that wait to be counted."""

    def __init__(self, probe: Probe, descriptors: Descriptors) -> None:
        self.probe, self.descriptors = probe, descriptors
        self.done: deque[Done] = deque(maxlen=MOST_WAITING)
        self.finished = 0
        self._plan: Plan | None = None
        self._t = [0, 0, 0, 0]
        self._padded, self._mode = -1, "NONE"
        self._replays = self._replays_before = 0
        self._on_prefill = -1
        self._last_end = 0
        self._runner: Any = None

    def arm(self) -> None:
        """Put the hooks on; both runners' where both are there: only the one in use is called."""
        self._runner = getattr(self.probe.host(Role.WORKER), "model_runner", None)
        NOW.stage = Stage.EAGER
        self._hook("step_execute", before=self._begins, after=self._ends)
        self._hook("step_sample", after=self._sampled)
        if getattr(self._runner, "cudagraph_manager", None) is not None or not hasattr(self._runner, "_model_forward"):
            self._hook("step_dispatch_v2", after=self._dispatched_v2)
            self._hook("step_full_v2", before=self._launches, after=self._launched)
            self._hook("step_pieces_v2", before=self._launches, after=self._launched)
        else:
            self._hook("step_dispatch", after=self._dispatched)
            self._hook("step_forward", before=self._launches, after=self._launched)
        self.probe.hook("graph_replay", self._count_replays())
        self._watch_drafts()

    def close(self) -> None:
        """The last step is finished where nobody samples (pooling, a pipeline's first ranks)."""
        self._finish(0)

    # -- hooks ---------------------------------------------------------------------------------------------------

    def _begins(self, _worker: Any, scheduler_output: Any, *_args: Any, **_kwargs: Any) -> None:
        if self._plan is not None:
            self._finish(0)
        plan = plan_of(scheduler_output)
        self._plan = plan
        self._replays_before, self._mode, self._padded, self._on_prefill = self._replays, "NONE", plan.rows, -1
        NOW.phase, NOW.rows, NOW.descriptor = plan.phase, plan.rows, -1
        if plan is not EMPTY:
            NOW.step = self.probe.step
            self.probe.step += 1
        self._t = [monotonic_ns(), 0, 0, 0]

    def _ends(self, _token: Any, result: Any, *_args: Any, **_kwargs: Any) -> None:
        self._t[3] = monotonic_ns()
        if result is not None or self._plan is EMPTY:  # None: sample_tokens is called next
            self._finish(0)

    def _sampled(self, _token: Any, _result: Any, *_args: Any, **_kwargs: Any) -> None:
        self._finish(monotonic_ns())

    def _launches(self, *_args: Any, **_kwargs: Any) -> None:
        if not self._t[1]:
            self._t[1] = monotonic_ns()

    def _launched(self, *_args: Any, **_kwargs: Any) -> None:
        if not self._t[2]:  # a draft model's launches come later in the step
            self._t[2] = monotonic_ns()

    def _dispatched(self, _token: Any, result: Any, dispatcher: Any, *_args: Any, **_kwargs: Any) -> None:
        if dispatcher is getattr(self._runner, "cudagraph_dispatcher", None):
            mode, key = result
            self._padded_batch(key, mode_name(mode), "v1")

    def _dispatched_v2(self, _token: Any, result: Any, manager: Any, *_args: Any, **_kwargs: Any) -> None:
        if manager is getattr(self._runner, "cudagraph_manager", None):
            self._padded_batch(result, mode_name(result.cg_mode), "v2")

    def _padded_batch(self, key: Any, mode: str, runner: str) -> None:
        self._mode, self._padded = mode, key.num_tokens
        NOW.descriptor = self.descriptors.id(key, mode, runner)

    # -- inside --------------------------------------------------------------------------------------------------

    def _hook(self, seam: str, before: Any = None, after: Any = None) -> None:
        self.probe.hook(seam, around(self.probe.patches, seam, before=before, after=after))

    def _count_replays(self) -> Make:
        """The cheapest hook there is: a breakable step replays one graph a layer."""
        on = self.probe.patches.switch("graph_replay")

        def make(original: Any) -> Any:
            def replay(graph: Any) -> Any:
                if on:
                    self._replays += 1
                return original(graph)

            return replay

        return make

    def _watch_drafts(self) -> None:
        """With drafts: rows to verify that the attention metadata puts on the prefill side (a batch of unequal lengths)."""
        if getattr(getattr(self._runner, "vllm_config", None), "speculative_config", None) is None:
            return
        for builder in _builders(self._runner):
            seam = "step_metadata"
            self.probe.patches.put(seam, builder, "build", around(self.probe.patches, seam, after=self._metadata))

    def _metadata(self, _token: Any, metadata: Any, *_args: Any, **_kwargs: Any) -> None:
        plan, prefill = self._plan, getattr(metadata, "num_prefill_tokens", None)
        if plan is not None and plan.spec_rows and isinstance(prefill, int):
            self._on_prefill = max(self._on_prefill, prefill - plan.ctx_rows, 0)

    def _finish(self, sampled: int) -> None:
        plan = self._plan
        if plan is None:
            return
        self._plan = None
        start, launch, launched, end = self._t
        self.finished += 1
        self.done.append(
            Done(
                step=NOW.step,
                plan=plan,
                mode=self._mode,
                descriptor=NOW.descriptor,
                padded_rows=self._padded,
                replays=self._replays - self._replays_before,
                spec_on_prefill=0 if not plan.spec_rows else self._on_prefill,
                stage=NOW.stage,
                t0=start,
                t1=launch,
                t2=launched,
                t3=end,
                t4=sampled,
                idle_ns=start - self._last_end if self._last_end else -1,
            )
        )
        self._last_end = sampled or end
        NOW.phase, NOW.descriptor, NOW.rows = "unknown", -1, -1


def _builders(runner: Any) -> list[Any]:
    """The attention metadata builders of a runner: one or more per attention group."""
    found: list[Any] = []
    for groups in getattr(runner, "attn_groups", None) or []:
        for group in groups if isinstance(groups, list) else [groups]:
            found += getattr(group, "metadata_builders", None) or []
    return found
