"""Records what the probe claims of a few steps together with what the device did in them.

    python benchmarks/device/record.py --model FOLDER --out DIR [--eager] [--scenario NAME ...]

Each scenario is armed, run and disarmed by itself: its folder holds the guest's recording, the trace of a profiler window
over some of the same steps, and ``witness.json``: what torch itself says of the memory of weights and caches. The
scenario ``routing`` has no window: every step is sampled (set M3PROBE_ROUTING_EVERY=1; under graphs start with M3PROBE=1
M3PROBE_ROUTING=1, which captures the counting). ``claims.py DIR/SCENARIO`` compares. Needs m3probe in vLLM's environment.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

SCENARIOS = {"short": (8, 250), "long": (8, 3000), "longest": (8, 7800), "routing": (8, 3000)}
"""name -> (requests, prompt tokens); above 2,048 tokens M3's sparse layers have more blocks than they choose (16 of 128)."""
DECODE = 9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--eager", action="store_true")
    parser.add_argument("--scenario", nargs="+", choices=SCENARIOS, default=["short", "long", "longest"])
    parser.add_argument("--prompt", type=int, help="prompt tokens of every scenario, for a model with less room")
    given = parser.parse_args()

    import guests
    from engine import Engine

    engine = Engine(given.model, eager=given.eager)
    guests.disarm()  # a recording of the start-up
    said = {"load_s": round(engine.load_s, 1), "eager": given.eager}
    print(json.dumps(said), flush=True)
    for name in given.scenario:
        batch, prompt = SCENARIOS[name]
        folder = given.out / name
        engine.run(batch, given.prompt or prompt, DECODE)  # compiles what is still to be compiled
        (routed if name == "routing" else windowed)(engine, folder, batch, given.prompt or prompt)
        for status in guests.disarm():
            print(told(folder, status), flush=True)
        (folder / "witness.json").write_text(json.dumps(said | witness(engine), indent=1) + "\n")


def windowed(engine, folder: Path, batch: int, prompt: int) -> None:
    import guests

    guests.arm(folder, windows=600.0)
    prefills = counted(engine, batch, prompt)
    guests.profile(guests.step() + 1, 1 + prefills + DECODE)
    engine.run(1, 16, 1)  # two steps: the window opens with the second, a decode step of one row
    engine.run(batch, prompt, DECODE)
    engine.run(batch, 16, 100)  # the step rate after the window
    guests.traced(folder)


def routed(engine, folder: Path, batch: int, prompt: int) -> None:
    import guests

    guests.arm(folder, routing=True, overlap=True)
    engine.run(batch, prompt, DECODE)
    engine.run(batch, 16, 1)  # what the step before has counted arrives


def counted(engine, batch: int, prompt: int) -> int:
    """Steps that the worker runs until each of ``batch`` prompts has its first token."""
    import guests

    before = guests.step()
    engine.run(batch, prompt, DECODE)
    return guests.step() - before - DECODE


def told(folder: Path, status) -> str:
    said = {"scenario": folder.name, "steps": status.step, "hooks": status.hooks, "left": list(status.left_behind)}
    return json.dumps(said | {"dropped": dict(status.dropped), "failed": dict(status.failed_hooks)})


def witness(engine) -> dict:
    """Bytes of weights and caches as torch holds them, each allocation once; none where the worker is another process."""
    try:
        runner = engine.engine.engine_core.engine_core.model_executor.driver_worker.worker.model_runner
        weights = storages([*runner.model.parameters(), *runner.model.buffers()])
        caches = storages(tensors(runner.kv_caches))
    except AttributeError as error:
        return {"no_witness": str(error)}
    return {"weight_bytes": sum(weights.values()), "kv_bytes": sum(caches.values())}


def storages(found) -> dict[int, int]:
    return {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in found}


def tensors(held):
    if hasattr(held, "untyped_storage"):
        yield held
    elif isinstance(held, dict):
        for one in held.values():
            yield from tensors(one)
    elif isinstance(held, (list, tuple)):
        for one in held:
            yield from tensors(one)


if __name__ == "__main__":
    main()
