"""In an environment with torch: the reference's formulas on small inputs; prints what they give, judged by the test."""

import json
import sys
from types import SimpleNamespace

import torch

from m3probe.collectors._gates_kv import codes_equal
from m3probe.collectors._quant import Unknown, dequantised, weight_of
from m3probe.collectors._quant_packed import unpacked
from m3probe.collectors._verify_catch import Caught
from m3probe.collectors._verify_compare import Empty, verified
from m3probe.collectors._verify_moe import Experts, output, swiglu_oai
from m3probe.collectors._verify_route import Routing, route

E4M3 = torch.float8_e4m3fn


def said(call):
    """A tensor as lists, or why there is none."""
    try:
        return call().tolist()
    except Unknown as why:
        return str(why)


def weights():
    eights = torch.full((2, 64), 8.0).to(E4M3)
    codes = torch.tensor([[0x21] * 16 + [0xF8] * 16], dtype=torch.uint8)
    turned = torch.tensor([[1.0, 2.0], [3.0, 4.0]]).to(E4M3).t()
    layer = SimpleNamespace(weight=turned, weight_scale=torch.tensor(0.5))
    shuffled = SimpleNamespace(weight=torch.ones(2, 2))
    shuffled.weight.is_shuffled = True
    exponents = torch.tensor([[127, 128], [126, 255]], dtype=torch.uint8)
    return {
        "mxfp8": said(lambda: dequantised(eights, exponents, (2, 64))[:, ::32]),
        "fp8 one scale": said(lambda: dequantised(eights, torch.tensor(0.25), (2, 64))[:, 0]),
        "fp8 a row": said(lambda: dequantised(eights, torch.tensor([[1.0], [2.0]]), (2, 64))[:, 0]),
        "fp8 blocks": said(
            lambda: dequantised(
                torch.full((256, 192), 2.0).to(E4M3), torch.tensor([[1.0, 3.0], [5.0, 7.0]]), (256, 192)
            )[::128, ::128]
        ),
        "mxfp4": said(
            lambda: dequantised(codes, torch.tensor([[128, 126]], dtype=torch.uint8), (1, 64))[0, [0, 1, 62, 63]]
        ),
        "padded": said(lambda: dequantised(torch.ones(3, 4, dtype=torch.bfloat16), None, (2, 3))),
        "turned": said(lambda: weight_of(layer, "", (2, 2))),
        "odd": said(lambda: dequantised(eights, torch.ones(3, 7), (2, 64))),
        "no scale": said(lambda: dequantised(eights, None, (2, 64))),
        "shuffled": said(lambda: weight_of(shuffled, "", (2, 2))),
        "gone": said(lambda: weight_of(SimpleNamespace(weight=torch.empty(0)), "", (2, 2))),
    }


def packing():
    order = torch.randperm(48, generator=torch.Generator().manual_seed(3))
    weight = torch.randn(6, 8).bfloat16()
    pack = lambda w: w.reshape(-1)[order].reshape(1, 6, 8)  # noqa: E731
    large = torch.arange(300 * 100).reshape(300, 100).float()
    backwards = lambda w: w.flip((0, 1, 2))  # noqa: E731
    return {
        "same": bool(torch.equal(unpacked(pack(weight)[0], pack), weight)),
        "large": bool(torch.equal(unpacked(backwards(large.unsqueeze(0))[0], backwards), large)),
        "not a permutation": said(lambda: unpacked(weight, lambda w: w * 2)),
    }


def routes():
    logits = torch.tensor([[0.0, 2.0, 1.0, -1.0]])
    bias = torch.tensor([0.0, -5.0, 0.0, 1.0])
    cases = {
        "softmax": Routing(2, "softmax", renormalize=False),
        "renormalised": Routing(2, "softmax", renormalize=True, scale=2.0),
        "biased": Routing(2, "sigmoid", renormalize=False, bias=bias),
        "groups": Routing(1, "softmax", renormalize=True, groups=2, group_top_k=1),
        "biased groups": Routing(1, "sigmoid", renormalize=False, bias=bias, groups=2, group_top_k=1),
        "shared": Routing(1, "sigmoid", renormalize=True, shared=1, shared_weight=0.5, experts=4),
    }
    found = {name: [t.tolist() for t in route(logits, how)[:2]] for name, how in cases.items()}
    tied = torch.tensor([[1.0, 1.0, 0.0, 0.0], [1.0, 0.5, 0.0, 0.0]])
    return found | {"clear": route(tied, Routing(1, "softmax", renormalize=True))[2].tolist()}


def shares():
    """Two experts of one row and column: w13 gives (gate, up) = (x, 2x), w2 multiplies by 10 times the slot + 1."""
    experts = Experts(
        routing=Routing(2, "softmax", renormalize=True),
        slots={1: 0},  # this rank holds expert 1 alone
        w13=lambda _slot: torch.tensor([[1.0], [2.0]]),
        w2=lambda slot: torch.tensor([[10.0 * (slot + 1)]]),
        activate=lambda x: x[:, :1] * x[:, 1:],
    )
    rows, logits = torch.tensor([[1.0], [3.0]]), torch.zeros(2, 2)
    swiglu = swiglu_oai(torch.tensor([[9.0, 1.0]]), torch.tensor([[-9.0, 0.5]]), 1.702, 1.0, 7.0)
    return {"share": output(experts, rows, logits)[0].tolist(), "swiglu": swiglu.tolist()}


class RMSNorm:
    def __init__(self):
        self.weight, self.variance_epsilon = torch.tensor([1.0, 2.0]), 0.0


class GemmaRMSNorm(RMSNorm):
    pass


def norms():
    x, residual = torch.tensor([[3.0, 4.0]]), torch.tensor([[1.0, -1.0]])
    root = (12.5) ** 0.5
    right = torch.tensor([[3.0 / root, 8.0 / root]])
    both = torch.tensor([[4.0, 3.0]])
    cases = {
        "plain": (RMSNorm(), {"x": x}, [right]),
        "gemma": (GemmaRMSNorm(), {"x": x}, [torch.tensor([[2 * 3.0 / root, 3 * 4.0 / root]])]),
        "added": (RMSNorm(), {"x": x, "residual": residual}, [torch.tensor([[4.0 / root, 6.0 / root]]), both]),
        "wrong residual": (RMSNorm(), {"x": x, "residual": residual}, [torch.tensor([[4.0 / root, 6.0 / root]]), x]),
        "nan": (RMSNorm(), {"x": x}, [torch.full((1, 2), float("nan"))]),
        "zero": (RMSNorm(), {"x": torch.zeros(1, 2)}, [torch.zeros(1, 2)]),
    }
    found = {}
    for name, (module, inputs, outputs) in cases.items():
        try:
            verdict = verified("it", module, "norm", Caught(inputs, outputs))
            found[name] = [
                verdict.state,
                verdict.cosine if verdict.state == "holds" else verdict.text,
                verdict.max_error,
            ]
        except Empty:
            found[name] = "empty"
    return found


flavours = [codes_equal(E4M3, E4M3), codes_equal(torch.float8_e4m3fnuz, E4M3), codes_equal(torch.bfloat16, E4M3)]
made = {
    "weights": weights(),
    "packing": packing(),
    "routes": routes(),
    "shares": shares(),
    "norms": norms(),
    "codes": flavours,
}
sys.stdout.write("OUTCOME " + json.dumps(made) + "\n")
