"""Copies one module's real input and output once, at an eager step, and takes its hook off again."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from m3probe.collectors._modules_look import get, is_a
from m3probe.collectors._patch import around
from m3probe.collectors._quant import Unknown

if TYPE_CHECKING:
    from m3probe.collectors._probe import Probe

MOST_ROWS = 64
"""Rows that are copied: the reference is computed on the host."""
LINEAR, GATE, MOE, NORM = SEAMS = ("verify_linear", "verify_gate", "verify_moe", "verify_norm")


@dataclass(slots=True)
class Caught:
    """Copies on the module's device; ``ready`` is None where the device needs no waiting."""

    inputs: dict[str, Any]
    outputs: list[Any] = field(default_factory=list)
    ready: Any = None

    def on_host(self) -> tuple[dict[str, Any], list[Any]]:
        """Both as float32 on the host; waits for the device, so not in a hook."""
        if self.ready is not None:
            self.ready.synchronize()
        inputs = {name: None if t is None else t.detach().float().cpu() for name, t in self.inputs.items()}
        return inputs, [t.detach().float().cpu() for t in self.outputs]


class Catch:
    """Waits at one module's seam for one call.

    Args:
        kind: of the module, as the model map has it.
    """

    def __init__(self, probe: Probe, module: Any, kind: str) -> None:
        self._probe, self._module = probe, module
        self.seam, self._owner = _where(module, kind)
        self.caught: Caught | None = None
        self.done = threading.Event()

    def stand(self) -> bool:
        """Put the hook on; False where the seam is absent."""
        make = around(self._probe.patches, self.seam, before=self._before, after=self._after, traced=True)
        return self._probe.hook(self.seam, make, owner=self._owner)

    def leave(self) -> None:
        """Take the hook off."""
        self._probe.unhook(self.seam)

    def _before(self, *args: Any, **names: Any) -> Caught | None:
        if self.done.is_set() or _capturing():
            return None
        given = _given(self.seam, args, names)
        if self.seam == LINEAR and given.pop("layer") is not self._module:
            return None  # a quantisation method may serve several layers
        return Caught({name: _copied(value) for name, value in given.items()})

    def _after(self, token: Caught | None, result: Any, *_args: Any, **_names: Any) -> None:
        if token is None or self.done.is_set():
            return
        outputs = _outputs(self.seam, result)
        token.outputs = [copy for copy in map(_copied, outputs) if copy is not None]
        token.ready = _event(token.outputs)
        self.caught = token
        self.done.set()


def _where(module: Any, kind: str) -> tuple[str, Any]:
    """Seam and object to hook.

    Raises:
        Unknown: modules of this kind cannot be recomputed alone.
    """
    if kind == "moe":
        return MOE, module
    if kind == "norm":
        return NORM, module
    if kind == "router" and is_a(module, "GateLinear"):
        return GATE, module
    method = get(module, "quant_method")
    if kind in ("linear", "router", "lm_head") and method is not None:
        return LINEAR, method
    raise Unknown(
        f"a module of kind {kind} ({type(module).__name__}) is not a function of its input and parameters alone"
    )


_NAMES: dict[str, tuple[str, ...]] = {
    LINEAR: ("layer", "x", "bias"),
    GATE: ("x",),
    MOE: ("hidden_states", "router_logits"),
    NORM: ("x", "residual"),
}


def _given(seam: str, args: tuple[Any, ...], names: dict[str, Any]) -> dict[str, Any]:
    found = dict(zip(_NAMES[seam], args, strict=False)) | names
    return {name: found.get(name) for name in _NAMES[seam]}


def _outputs(seam: str, result: Any) -> list[Any]:
    """The tensors to compare: of a MoE layer the experts' part, of others what they return, biases apart."""
    if seam == MOE:
        return [result[1] if isinstance(result, tuple) else result]
    if not isinstance(result, tuple):
        return [result]
    return list(result) if seam == NORM else [result[0]]


def _copied(value: Any) -> Any:
    """The first rows of a tensor of rows, as two dims; a bias whole; None for all that is no tensor."""
    if not callable(getattr(value, "clone", None)):
        return None
    if value.ndim <= 1:
        return value.clone()
    return value.reshape(-1, value.shape[-1])[:MOST_ROWS].clone()


def _event(tensors: list[Any]) -> Any:
    """An event after the copies on the stream that made them."""
    torch: Any = sys.modules.get("torch")
    if torch is None or not tensors or tensors[0].device.type != "cuda":
        return None
    event = torch.cuda.Event()
    event.record()
    return event


def _capturing() -> bool:
    torch: Any = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    ask: Callable[[], bool] | None = getattr(cuda, "is_current_stream_capturing", None)
    return bool(cuda is not None and cuda.is_initialized() and ask is not None and ask())
