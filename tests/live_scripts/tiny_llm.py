"""In an environment with vLLM: a tiny model in one process, recorded from its start into FOLDER/rec.

Usage: tiny_llm.py FOLDER MODEL [--dummy] [--without NAME]... [--verify]
``--verify`` asks for verdicts of modules, as they are and with faults planted in them; prints them.
"""

import json
import os
import sys
import time
from pathlib import Path

folder, model, options = Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
os.environ |= {"M3PROBE": "1", "M3PROBE_DIR": str(folder / "rec"), "VLLM_ENABLE_V1_MULTIPROCESSING": "0"}
os.environ |= {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_CPU_KVCACHE_SPACE": "1"}

import torch  # noqa: E402 - the variables come first
from tiny_checkpoint import write  # noqa: E402
from vllm import LLM, SamplingParams  # noqa: E402
from vllm.model_executor.layers.linear import UnquantizedLinearMethod  # noqa: E402

from m3probe.collectors import _plugin  # noqa: E402
from m3probe.schema import control, records  # noqa: E402
from m3probe.schema.roles import Role  # noqa: E402

KEPT = "model.layers.1.self_attn.o_proj"
"""The one linear layer whose weight stays here; the CPU's GEMM library takes all others."""


def keep_one_weight() -> None:
    process = UnquantizedLinearMethod.process_weights_after_loading

    def kept(self, layer):
        if getattr(layer, "prefix", "") == KEPT:
            layer._cpu_skip_gemm_dispatch = True
        process(self, layer)

    UnquantizedLinearMethod.process_weights_after_loading = kept


class Verdicts:
    """Asks for a module, serves requests until there is a verdict, and keeps both."""

    def __init__(self, llm, probe):
        self.llm, self.probe, self.found, self.told = llm, probe, {}, []
        put = probe.put

        def tell(record):
            if isinstance(record, records.Verified):
                self.told.append(record)
            put(record)

        probe.put = tell

    def ask(self, case, module):
        self.told.clear()
        answer = self.probe.answer(control.Verify(module=module))
        logprobs = self.serve()
        until = time.monotonic() + 40
        while not self.told and isinstance(answer, control.Done) and time.monotonic() < until:
            logprobs = self.serve()
            time.sleep(0.3)
        said = self.told[0] if self.told else records.Verified(module=module, state=getattr(answer, "text", "?"))
        values = {
            "state": said.state,
            "cosine": said.cosine,
            "max_error": said.max_error,
            "rows": said.rows,
            "text": said.text,
        }
        self.found[case] = values | {"logprobs": logprobs}

    def serve(self):
        asked = SamplingParams(max_tokens=3, temperature=0, ignore_eos=True, logprobs=1, detokenize=False)
        prompts = [{"prompt_token_ids": [(17 * n + 5 * at) % 500 for at in range(12)]} for n in range(3)]
        out = self.llm.generate(prompts, asked, use_tqdm=False)
        return [round(o.outputs[0].cumulative_logprob, 4) for o in out]


def verdicts(llm, probe):
    asked, modules = Verdicts(llm, probe), dict(probe.host(Role.WORKER).model_runner.get_model().named_modules())
    runner, norm, kept = (modules[n] for n in ("model.layers.0.mlp.experts", "model.layers.1.input_layernorm", KEPT))
    before = {name: dict(vars(m)) for name, m in modules.items()}
    for module in ("model.layers.0.mlp.experts", "model.layers.1.input_layernorm", KEPT, "lm_head"):
        asked.ask(module, module)
    for module in ("model.layers.0.self_attn.qkv_proj", "model.layers.0.self_attn.attn", "model.layers.0.mlp.expert"):
        asked.ask(module, module)
    same = all(vars(m).keys() == before[name].keys() for name, m in modules.items())
    kernel = runner.routed_experts.quant_method.moe_kernel.fused_experts
    apply = kernel.apply

    def mapped(expert_map):
        """The kernel looks its experts up in a map, as it does under expert parallelism."""

        def run(**names):
            return apply(**names | {"topk_ids": expert_map[names["topk_ids"].long()].to(names["topk_ids"].dtype)})

        return run

    right = torch.arange(8)
    wrong = right.clone()
    wrong[[2, 5]] = right[[5, 2]]
    kernel.apply = mapped(right)
    asked.ask("right map", "model.layers.0.mlp.experts")
    kernel.apply = mapped(wrong)
    asked.ask("wrong map", "model.layers.0.mlp.experts")
    del kernel.apply
    forward, linear = norm._forward_method, kept.cpu_linear
    norm._forward_method = lambda x, residual: (forward(x, residual)[0].flip(-1), residual)
    asked.ask("wrong norm", "model.layers.1.input_layernorm")
    norm._forward_method = forward
    kept.cpu_linear = lambda x, weight, bias: linear(x.roll(1, -1), weight, bias)
    asked.ask("wrong linear", KEPT)
    kept.cpu_linear = linear
    return {"verdicts": asked.found, "same": same, "failed": dict(probe.patches.failed)}


keep_one_weight()
without = tuple(options[at + 1] for at, option in enumerate(options) if option == "--without")
write(folder / "model", model, without, weights="--dummy" not in options)
made = LLM(
    str(folder / "model"),
    load_format="dummy" if "--dummy" in options else "auto",
    dtype="float32",
    max_model_len=256,
    max_num_seqs=8,
    enforce_eager=True,
    skip_tokenizer_init=True,
    enable_prefix_caching=False,
)
probe = _plugin.probe()
outcome = verdicts(made, probe) if "--verify" in options else {"failed": dict(probe.patches.failed)}
probe.leave()
sys.stdout.write("OUTCOME " + json.dumps(outcome) + "\n")
