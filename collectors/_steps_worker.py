"""Steps as a worker executes them: four hooks a step, one more a replayed graph."""

from __future__ import annotations

from collections import Counter, deque
from time import monotonic_ns
from typing import TYPE_CHECKING, Any

from m3probe.collectors._descriptors import Descriptors, mode_name
from m3probe.collectors._now import NOW
from m3probe.collectors._patch import Make, around
from m3probe.collectors._steps_count import Done
from m3probe.collectors._steps_drafts import builders, drafted_on_prefill, watch_drafts
from m3probe.collectors._steps_plan import EMPTY, Plan, plan_of
from m3probe.collectors._twin import Twins
from m3probe.schema.roles import Role, Stage

if TYPE_CHECKING:
    from m3probe.collectors._probe import Probe

MOST_WAITING = 100_000
"""Finished steps between two ticks; the writer's thread takes them each second."""


class WorkerSteps:
    """The hooks of one worker, and the finished steps that wait to be counted.

    Attributes:
        done: finished steps, oldest first; the writer's thread takes them away.
        lost: finished steps that pushed an older one out.
        draft_replays: FULL replays of a draft model by descriptor; the writer's thread takes them away.
    """

    def __init__(self, probe: Probe, descriptors: Descriptors, twins: Twins) -> None:
        self.probe, self.descriptors, self.twins = probe, descriptors, twins
        self.done: deque[Done] = deque(maxlen=MOST_WAITING)
        self.lost = 0
        self.draft_replays: deque[int] = deque(maxlen=MOST_WAITING)
        self._plan: Plan | None = None
        self._start = self._launch = self._launched = self._end = 0
        self._padded, self._mode = -1, "NONE"
        self._replays = self._replays_before = 0
        self._on_prefill = -1
        self._last_end = 0
        self._runner: Any = None

    def arm(self) -> None:
        """Put the hooks on: those of the runner that is in use."""
        self._runner = getattr(self.probe.host(Role.WORKER), "model_runner", None)
        NOW.stage, NOW.step = Stage.EAGER, -1
        self._hook("step_execute", before=self._begins, after=self._ends)
        self._hook("step_sample", after=self._sampled)
        if hasattr(self._runner, "_model_forward"):
            self._hook("step_dispatch", after=self._dispatched)
            self._hook("step_forward", before=self._launches, after=self._has_launched)
        else:
            self._hook("step_dispatch_v2", after=self._dispatched_v2)
            self._hook("step_full_v2", before=self._replays_full, after=self._has_launched)
            self.probe.hook("step_context_v2", self._timed())
        self.probe.hook("graph_replay", self._count_replays())
        self._hook("graph_replay_breakable", before=self._replays_pieces)
        watch_drafts(self.probe, self._runner)
        for builder in builders(self._runner):
            self.probe.patches.put(
                "step_metadata", builder, "build", around(self.probe.patches, "step_metadata", after=self._metadata)
            )

    # -- hooks ---------------------------------------------------------------------------------------------------

    def _begins(self, _worker: Any, scheduler_output: Any, *_args: Any, **_kwargs: Any) -> None:
        if self._plan is not None:
            self._finish(0)
        plan = self._plan = plan_of(scheduler_output)
        self._replays_before, self._mode, self._padded, self._on_prefill = self._replays, "NONE", plan.rows, -1
        NOW.phase, NOW.rows, NOW.descriptor, NOW.is_draft = plan.phase, plan.rows, -1, False
        if plan is not EMPTY:
            NOW.step = self.probe.step
            self.probe.step += 1
            NOW.stage = Stage.TWIN if self.twins.runs(NOW.step) else Stage.EAGER
        self._launch = self._launched = self._end = 0
        self._start = monotonic_ns()

    def _ends(self, _token: Any, result: Any, *_args: Any, **_kwargs: Any) -> None:
        self._end = monotonic_ns()
        if result is not None or self._plan is EMPTY:  # None: sample_tokens is called next
            self._finish(0)

    def _sampled(self, _token: Any, _result: Any, *_args: Any, **_kwargs: Any) -> None:
        self._finish(monotonic_ns())

    def _launches(self, *_args: Any, **_kwargs: Any) -> None:
        if not self._launch and self._plan is not None:
            self._launch = monotonic_ns()

    def _has_launched(self, *_args: Any, **_kwargs: Any) -> None:
        if not self._launched and self._plan is not None:  # a draft model's launches come later in the step
            self._launched = monotonic_ns()

    def _dispatched(self, _token: Any, result: Any, *_args: Any, **_kwargs: Any) -> None:
        self._padded_batch(result[1], mode_name(result[0]), "v1")

    def _dispatched_v2(self, _token: Any, result: Any, *_args: Any, **_kwargs: Any) -> None:
        key = result[0]
        self._padded_batch(key, mode_name(key.cg_mode), "v2")

    def _padded_batch(self, key: Any, mode: str, runner: str) -> None:
        if self._plan is not None:  # dummy batches of data parallel ranks are no steps
            self._mode, self._padded = mode, key.num_tokens
            NOW.descriptor = self.descriptors.id(key, mode, runner)

    def _replays_full(self, manager: Any, desc: Any, *_args: Any, **_kwargs: Any) -> None:
        if manager is getattr(self._runner, "cudagraph_manager", None):
            self._launches()
        elif self._plan is not None:
            self.draft_replays.append(self.descriptors.id(desc, "FULL", "v2", draft=True))

    def _replays_pieces(self, _wrapper: Any, entry: Any, *_args: Any, **_kwargs: Any) -> None:
        """A breakable batch holds the graphs' bound ``replay``, so that a hook on the class does not see them."""
        self._replays += entry.capture.num_graphs

    def _metadata(self, _token: Any, metadata: Any, *_args: Any, **_kwargs: Any) -> None:
        plan = self._plan
        if plan is not None and plan.spec_rows and not NOW.is_draft:
            self._on_prefill = max(self._on_prefill, drafted_on_prefill(plan, metadata))

    # -- inside --------------------------------------------------------------------------------------------------

    def _hook(self, seam: str, before: Any = None, after: Any = None) -> None:
        self.probe.hook(seam, around(self.probe.patches, seam, before=before, after=after))

    def _count_replays(self) -> Make:
        """The cheapest hook there is: a compiled piecewise step replays one graph a layer."""
        on = self.probe.patches.switch("graph_replay")

        def make(original: Any) -> Any:
            def replay(graph: Any) -> Any:
                if on:
                    self._replays += 1
                return original(graph)

            return replay

        return make

    def _timed(self) -> Make:
        """Around vLLM's forward context, which V2 opens for piecewise and eager steps and closes after the model."""
        on = self.probe.patches.switch("step_context_v2")

        def make(original: Any) -> Any:
            def set_forward_context(*args: Any, **kwargs: Any) -> Any:
                context = original(*args, **kwargs)
                return Timed(self, context) if on else context

            return set_forward_context

        return make

    def _finish(self, sampled: int) -> None:
        plan = self._plan
        if plan is None:
            return
        self._plan = None
        if len(self.done) == MOST_WAITING:
            self.lost += 1
        self.done.append(
            Done(
                step=NOW.step,
                plan=plan,
                mode=self._mode,
                descriptor=NOW.descriptor,
                padded_rows=self._padded,
                replays=self._replays - self._replays_before,
                spec_on_prefill=self._on_prefill if plan.spec_rows else 0,
                stage=NOW.stage,
                t0=self._start,
                t1=self._launch,
                t2=self._launched,
                t3=self._end,
                t4=sampled,
                idle_ns=self._start - self._last_end if self._last_end else -1,
            )
        )
        self._last_end = sampled or self._end
        NOW.phase, NOW.descriptor, NOW.rows = "unknown", -1, -1


class Timed:
    """A context that tells when it was entered and left."""

    __slots__ = ("context", "steps")

    def __init__(self, steps: WorkerSteps, context: Any) -> None:
        self.steps, self.context = steps, context

    def __enter__(self) -> Any:
        self.steps._launches()  # noqa: SLF001 - one thing in two classes
        return self.context.__enter__()

    def __exit__(self, *error: Any) -> Any:
        left = self.context.__exit__(*error)
        self.steps._has_launched()  # noqa: SLF001 - as above
        return left


def taken(replays: deque[int]) -> dict[int, int]:
    """Numbers that were appended until now, counted."""
    return dict(Counter(replays.popleft() for _ in range(len(replays))))
