"""In an environment with vLLM: one profiler window around four decode steps of three requests; prints what came of it."""

import json
import os
import sys
import time

model, folder = sys.argv[1:]
os.environ |= {"M3PROBE": "1", "M3PROBE_DIR": folder, "VLLM_ENABLE_V1_MULTIPROCESSING": "0", "HF_HUB_OFFLINE": "1"}
os.environ |= {"VLLM_NO_USAGE_STATS": "1", "VLLM_CPU_KVCACHE_SPACE": "1"}

from vllm import LLM, SamplingParams  # noqa: E402 - the variables come first
from vllm.v1.worker.gpu_worker import Worker  # noqa: E402

from m3probe.collectors import _plugin  # noqa: E402
from m3probe.schema import control  # noqa: E402

llm = LLM(model, load_format="dummy", dtype="float32", max_model_len=512, max_num_seqs=16, enforce_eager=True)
probe = _plugin.probe()
armed = dict(vars(Worker))
prompts = [{"prompt_token_ids": [5 + n] * 16} for n in range(3)]
asked = control.ProfileWindow(at=probe.step + 40, steps=4, most_bytes=10**9)
answer = type(probe.answer(asked)).__name__
second = type(probe.answer(asked)).__name__
llm.generate(prompts, SamplingParams(max_tokens=200, temperature=0, ignore_eos=True), use_tqdm=False)
until = time.monotonic() + 30
while any(patch.seam.startswith("profile_") for patch in probe.patches.standing) and time.monotonic() < until:
    time.sleep(0.2)
same = all(vars(Worker)[name] is value for name, value in armed.items()) and len(vars(Worker)) == len(armed)
failed = dict(probe.patches.failed)
probe.leave()
sys.stdout.write(
    "OUTCOME " + json.dumps({"at": asked.at, "answers": [answer, second], "same": same, "failed": failed}) + "\n"
)
