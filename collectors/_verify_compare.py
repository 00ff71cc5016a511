"""Recomputes what was caught, and says how far the module is off."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import Any

from m3probe.collectors import _modules_linear as of
from m3probe.collectors._modules_look import cls, get, is_a, number, shape
from m3probe.collectors._quant import FLOATS, Unknown, plain_kernel, weight_of
from m3probe.collectors._verify_catch import Caught
from m3probe.collectors._verify_moe import experts_for, output
from m3probe.schema.records import Verified

LEAST = 0.999
"""Cosine of a row with its reference; bfloat16 gives 0.99999, FP8 inputs and weights 0.9995."""
HOLDS, BROKEN, CANNOT = "holds", "broken", "cannot verify"
CHUNK = 4096
"""Rows of a weight that are made float32 at a time."""
NORMS = ("RMSNorm", "GemmaRMSNorm", "MiniMAXGemmaRMSNorm")


class Empty(Exception):
    """The rows that were caught are all zero, or all tied: another step is needed."""


@dataclass(frozen=True, slots=True)
class Reference:
    """Expected tensors, the rows that count (None: all), and what was compared, in words."""

    outputs: list[Any]
    rows: Any = None
    text: str = ""


def check(module: Any, kind: str) -> None:
    """Whether this module can be recomputed at all, before anything is hooked.

    Raises:
        Unknown: why not.
    """
    if kind == "moe":
        experts_for(module)
    elif kind == "norm":
        if not is_a(module, *NORMS):
            raise Unknown(f"the norm {cls(module)}")
    else:
        _check_linear(module, kind)


def verified(name: str, module: Any, kind: str, caught: Caught) -> Verified:
    """The verdict on one call.

    Raises:
        Empty: nothing in it can be compared.
    """
    try:
        inputs, outputs = caught.on_host()
        if not any(bool(t.any()) for n, t in inputs.items() if t is not None and n != "bias"):
            raise Empty
        expected = _reference(module, kind, inputs)
    except Unknown as why:
        return Verified(module=name, state=CANNOT, text=f"{CANNOT}: {why}")
    if not outputs:
        return Verified(
            module=name, state=CANNOT, text=f"{CANNOT}: its output is no tensor (deferred, or summed elsewhere)"
        )
    return _compared(name, outputs, expected)


def _reference(module: Any, kind: str, inputs: dict[str, Any]) -> Reference:
    with sys.modules["torch"].no_grad():
        if kind == "moe":
            return _moe(module, inputs)
        return _norm(module, inputs) if kind == "norm" else _linear(module, kind, inputs)


def _moe(module: Any, inputs: dict[str, Any]) -> Reference:
    experts = experts_for(module)
    if inputs.get("router_logits") is None:
        raise Unknown("the router's logits are not handed to the experts")
    share, clear = output(experts, inputs["hidden_states"], inputs["router_logits"])
    left_out = int((~clear).sum())
    said = [f"{left_out} tied rows left out"] if left_out else []
    said += [experts.text] if experts.text else []
    return Reference([share], clear, "; ".join(["this rank's share before the reduction", *said]))


def _norm(module: Any, inputs: dict[str, Any]) -> Reference:
    x, residual = inputs["x"], inputs.get("residual")
    x = x if residual is None else x + residual
    weight, eps = get(module, "weight"), float(get(module, "variance_epsilon") or 0.0)
    width = number(module, "variance_size_override")
    square = (x if width <= 0 else x[:, :width]).pow(2).mean(-1, keepdim=True)
    out = x * (square + eps).rsqrt()
    if weight is not None:
        scale = weight.detach().float().cpu()
        out = out * (scale + 1.0 if "gemma" in cls(module).lower() else scale)
    return Reference([out] if residual is None else [out, x])


def _linear(module: Any, kind: str, inputs: dict[str, Any]) -> Reference:
    torch: Any = sys.modules["torch"]
    size = _size(module, kind)
    weight = weight_of(module, "", size)
    parts = [inputs["x"] @ weight[at : at + CHUNK].T for at in range(0, size[0], CHUNK)]
    out = torch.cat(parts, -1)
    bias = inputs.get("bias")
    partial = number(module, "tp_size") > 1 and is_a(module, "RowParallelLinear")
    return Reference([out if bias is None else out + bias], text="partial sum of this rank" if partial else "")


def _check_linear(module: Any, kind: str) -> None:
    weight = get(module, "weight", "weight_packed", "qweight")
    if weight is not None and weight.numel() and str(weight.dtype).removeprefix("torch.") not in FLOATS:
        kernel = of.kernel(module)
        if not plain_kernel(kernel):
            raise Unknown(f"the layout of quantised weights in {kernel or of.quant(module)}")
        config = get(get(module, "scheme", "quant_method"), "kernel")
        if "Mxfp4" in kernel and get(get(config, "config"), "activation_quant_key") is not None:
            raise Unknown("its input is quantised to 4 bits, which alone moves the cosine below 0.999")
    if weight is None or not weight.numel() or min(_size(module, kind)) < 1:
        weight_of(module, "", _size(module, kind))


def _size(module: Any, kind: str) -> tuple[int, int]:
    if kind == "lm_head":
        return number(module, "num_embeddings_per_partition"), number(module, "embedding_dim")
    return of.linear_size(module)


def _compared(name: str, outputs: list[Any], expected: Reference) -> Verified:
    lowest, error, rows = math.inf, 0.0, -1
    for found, wanted in zip(outputs, expected.outputs, strict=False):
        whole = wanted[:, : found.shape[-1]]
        if shape(found) != shape(whole):
            return Verified(
                module=name, state=CANNOT, text=f"{CANNOT}: output {shape(found)}, expected {shape(wanted)}"
            )
        got, want = (found, whole) if expected.rows is None else (found[expected.rows], whole[expected.rows])
        rows = got.shape[0] if rows < 0 else rows
        if not rows:
            raise Empty
        if not bool(got.isfinite().all()):
            return Verified(
                module=name, state=BROKEN, rows=rows, text="the output has values that are no finite numbers"
            )
        lowest = min(lowest, _cosine(got, want))
        error = max(error, float((got - want).abs().max()))
    state = HOLDS if lowest >= LEAST else BROKEN
    said = f"lowest cosine of {rows} rows {lowest:.6f}" + (f"; {expected.text}" if expected.text else "")
    return Verified(module=name, state=state, cosine=lowest, max_error=error, rows=rows, text=said)


def _cosine(found: Any, wanted: Any) -> float:
    """Lowest over rows; a row that has to be zero counts as 1 where it is, as 0 where it is not."""
    torch: Any = sys.modules["torch"]
    found, wanted = found.double(), wanted.double()
    lengths = found.norm(dim=-1) * wanted.norm(dim=-1)
    cosine = torch.where(lengths == 0, torch.zeros_like(lengths), (found * wanted).sum(-1) / lengths)
    both = (found.norm(dim=-1) == 0) & (wanted.norm(dim=-1) == 0)
    return float(torch.where(both, torch.ones_like(cosine), cosine).min())
