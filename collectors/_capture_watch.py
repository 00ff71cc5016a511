"""Which padded batch is being captured: set in ``NOW`` for the hooks of other collectors, at start-up only."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from m3probe.collectors._descriptors import Descriptors, mode_name
from m3probe.collectors._now import NOW
from m3probe.collectors._patch import around
from m3probe.schema.roles import Role, Stage

if TYPE_CHECKING:
    from m3probe.collectors._probe import Probe


def watch_capture(probe: Probe, descriptors: Descriptors) -> None:
    """Hook capture in both runners; ``Steps.captured`` takes the hooks off."""
    patches = probe.patches

    def v1_begins(wrapper: Any, *_args: Any, **_kwargs: Any) -> Any:
        context = _forward_context()
        key, mode = getattr(context, "batch_descriptor", None), getattr(context, "cudagraph_runtime_mode", None)
        if key is None or mode_name(mode) == "NONE" or mode != wrapper.runtime_mode:
            return None
        entry = wrapper.concrete_cudagraph_entries.get(key)
        if entry is not None and entry.cudagraph is not None:
            return None
        return _enter(descriptors.id(key, mode_name(mode), "v1"))

    def breakable_begins(_wrapper: Any, entry: Any, *_args: Any, **_kwargs: Any) -> Any:
        if NOW.stage is Stage.CAPTURE:  # within V2's loop, which dispatches by keys of its own
            return None
        return _enter(descriptors.id(entry.batch_descriptor, "PIECEWISE", "breakable"))

    probe.hook_when_loaded("graph_capture_v1", around(patches, "graph_capture_v1", before=v1_begins, after=_leave))
    probe.hook_when_loaded(
        "graph_capture_breakable", around(patches, "graph_capture_breakable", before=breakable_begins, after=_leave)
    )
    probe.hook_when_loaded("graph_capture_v2", _v2(probe, descriptors))


def _v2(probe: Probe, descriptors: Descriptors) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Wraps the factory that V2's loop calls for each descriptor: once to warm up, once to capture.

    Source: ``CudaGraphManager.capture`` at 0.24.0 to 0.33.0 (``create_forward_fn(desc, warmup=...)``).
    """

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def capture(manager: Any, create_forward_fn: Any, *args: Any, **kwargs: Any) -> Any:
            def create(desc: Any, *a: Any, **k: Any) -> Any:
                try:
                    warms_up = bool(k.get("warmup", a[0] if a else False))
                    mode = mode_name(getattr(desc, "cg_mode", None))
                    NOW.descriptor = descriptors.id(desc, mode, "v2")
                    # compiled pieces have one forward function for both: they are captured by V1's wrapper inside it
                    NOW.stage = Stage.WARMUP if warms_up else Stage.CAPTURE
                    NOW.is_draft = manager is not getattr(_runner(probe), "cudagraph_manager", manager)
                except Exception as error:  # noqa: BLE001 - a guest never raises into its host
                    probe.patches.fault("graph_capture_v2", error)
                return create_forward_fn(desc, *a, **k)

            try:
                return original(manager, create, *args, **kwargs)
            finally:
                _leave(entered=True)

        return capture

    return make


def _runner(probe: Probe) -> Any:
    return getattr(probe.host(Role.WORKER), "model_runner", None)


def _enter(descriptor: int) -> bool:
    NOW.descriptor, NOW.stage = descriptor, Stage.CAPTURE
    return True


def _leave(entered: Any = None, *_args: Any, **_kwargs: Any) -> None:
    if entered:
        NOW.descriptor, NOW.stage, NOW.is_draft = -1, Stage.WARMUP, False


def _forward_context() -> Any:
    module = sys.modules.get("vllm.forward_context")
    return getattr(module, "_forward_context", None)
