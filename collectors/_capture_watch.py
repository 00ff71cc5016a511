"""Which padded batch is being captured: set in ``NOW`` for the hooks of other collectors, at start-up only."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from m3probe.collectors._descriptors import Descriptors, mode_name
from m3probe.collectors._now import NOW
from m3probe.collectors._patch import around
from m3probe.schema.roles import Role, Stage

if TYPE_CHECKING:
    from m3probe.collectors._probe import Probe

REHEARSAL = "graph_rehearsal"
"""Of the runner's own object, so it has no entry in the table of seams."""


class Place(NamedTuple):
    """What ``NOW`` held before a capture: V2's loop captures V1's pieces and breakable graphs inside."""

    stage: Stage
    descriptor: int
    is_draft: bool


class CaptureWatch:
    """Hooks capture in both runners; ``Steps.captured`` takes the hooks off.

    Before it allocates caches vLLM captures some graphs to measure their memory, and throws them away
    (``profile_cudagraph_memory`` of both runners, 0.24.0 to 0.33.0): that is warm-up.
    """

    def __init__(self, probe: Probe, descriptors: Descriptors) -> None:
        self.probe, self.descriptors = probe, descriptors
        self._rehearses = False

    def begin(self) -> None:
        """Put the hooks on, where vLLM has loaded the modules or when it does."""
        for seam, before in (
            ("graph_capture_v1", self._v1_begins),
            ("graph_capture_breakable", self._breakable_begins),
        ):
            self.probe.hook_when_loaded(seam, around(self.probe.patches, seam, before=before, after=_leave))
        self.probe.hook_when_loaded("graph_capture_v2", self._v2())
        runner = self._runner()
        if runner is not None:
            rehearsal = around(self.probe.patches, REHEARSAL, before=self._rehearsal(on=True), after=self._rehearsal())
            self.probe.patches.put(REHEARSAL, runner, "profile_cudagraph_memory", rehearsal)

    def end(self) -> None:
        """Take them off."""
        self.probe.unhook("graph_capture_v1", "graph_capture_breakable", "graph_capture_v2", REHEARSAL)

    def _runner(self) -> Any:
        return getattr(self.probe.host(Role.WORKER), "model_runner", None)

    def _rehearsal(self, *, on: bool = False) -> Callable[..., None]:
        def told(*_args: Any, **_kwargs: Any) -> None:
            self._rehearses = on

        return told

    def _v1_begins(self, wrapper: Any, *_args: Any, **_kwargs: Any) -> Place | None:
        context = _forward_context()
        key, mode = getattr(context, "batch_descriptor", None), getattr(context, "cudagraph_runtime_mode", None)
        if key is None or mode_name(mode) == "NONE" or mode != wrapper.runtime_mode:
            return None
        entry = wrapper.concrete_cudagraph_entries.get(key)
        if entry is not None and entry.cudagraph is not None:
            return None
        return self._captures(key, mode_name(mode), "v1")

    def _breakable_begins(self, _wrapper: Any, entry: Any, *_args: Any, **_kwargs: Any) -> Place | None:
        mode = mode_name(getattr(_forward_context(), "cudagraph_runtime_mode", None))
        return self._captures(entry.batch_descriptor, mode, "breakable")

    def _v2(self) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Wraps the factory that V2's loop calls for each descriptor: once to warm up, once to capture.

        Source: ``CudaGraphManager.capture`` at 0.24.0 to 0.33.0 (``create_forward_fn(desc, warmup=...)``). Compiled pieces
        have one forward function for both: what captures them is V1's wrapper inside it.
        """

        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            def capture(manager: Any, create_forward_fn: Any, *args: Any, **kwargs: Any) -> Any:
                before = _place()

                def create(desc: Any, *a: Any, **k: Any) -> Any:
                    try:
                        self._creates(manager, desc, before, warms_up=bool(k.get("warmup", a[0] if a else False)))
                    except Exception as error:  # noqa: BLE001 - a guest never raises into its host
                        self.probe.patches.fault("graph_capture_v2", error)
                    return create_forward_fn(desc, *a, **k)

                try:
                    return original(manager, create, *args, **kwargs)
                finally:
                    _leave(before)

            return capture

        return make

    def _creates(self, manager: Any, desc: Any, before: Place, *, warms_up: bool) -> None:
        target = getattr(self._runner(), "cudagraph_manager", None)
        NOW.is_draft = before.is_draft or (target is not None and manager is not target)
        if not self._rehearses:
            mode = mode_name(getattr(desc, "cg_mode", None))
            NOW.descriptor = self.descriptors.id(desc, mode, "v2", draft=NOW.is_draft)
            NOW.stage = Stage.WARMUP if warms_up else Stage.CAPTURE

    def _captures(self, key: Any, mode: str, runner: str) -> Place | None:
        """From warm-up to capture; within V2's loop the batch keeps V2's number, by which it is dispatched."""
        if self._rehearses:
            return None
        before = _place()
        if before.descriptor < 0:
            NOW.descriptor = self.descriptors.id(key, mode, runner, draft=NOW.is_draft)
        NOW.stage = Stage.CAPTURE
        return before


def _place() -> Place:
    return Place(NOW.stage, NOW.descriptor, NOW.is_draft)


def _leave(before: Place | None = None, *_args: Any, **_kwargs: Any) -> None:
    if before is not None:
        NOW.stage, NOW.descriptor, NOW.is_draft = before


def _forward_context() -> Any:
    module = sys.modules.get("vllm.forward_context")
    return getattr(module, "_forward_context", None)
