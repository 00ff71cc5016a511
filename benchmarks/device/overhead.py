"""ms per decode step in one serving process: without the probe, with its ledger, armed, and under vLLM's torch profiler.

    python benchmarks/device/overhead.py --model FOLDER --out DIR [--eager] [--batch 8 1 32] [--rounds 30]
    python benchmarks/device/overhead.py --read DIR/overhead.json

One engine for all arms, so that model, memory, clocks and caches are the same; each round decodes the same number of
steps in each state, in an order that turns from round to round. Beside the wall clock each step has the processor time of
the one thread that schedules, prepares, launches and samples: a neighbour on the host moves it less. Afterwards each
state is traced for a few steps, and its waiting calls of the runtime are counted; then vLLM's profiler takes turns with
none. ``DIR/overhead.json`` has every step; the table goes to standard output.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import time
from pathlib import Path

PROMPT, STEPS, SETTLE, TRACED = 250, 200, 5, 20
"""Prompt tokens, decode steps of an arm, its first steps left out, decode steps of a trace."""
STATES = ("off", "ledger", "armed")
DRAWS = 2000
"""Of the bootstrap over rounds."""


class Arms:
    """Puts the probe of this process into a state; ``leave`` ends it in order."""

    def __init__(self, out: Path) -> None:
        from m3probe.collectors import _plugin

        self.probe, self.out, self.count = _plugin.probe(), out, 0
        self.told: list[dict] = []

    def enter(self, state: str) -> None:
        import guests

        if state == "off":
            self.probe.leave()
        else:
            self.probe.listen()
        if state == "armed":
            self.count += 1
            guests.arm(self.out / f"armed-{self.count}")

    def leave(self, state: str) -> None:
        import guests

        if state == "armed":
            (status,) = guests.disarm()
            said = {"records": status.records, "bytes": status.bytes, "steps": status.step}
            self.told.append(said | {"dropped": dict(status.dropped), "failed": dict(status.failed_hooks)})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--read", type=Path, help="print the tables of an earlier run")
    parser.add_argument("--model", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--eager", action="store_true")
    parser.add_argument("--batch", type=int, nargs="+", default=[8, 1, 32])
    parser.add_argument("--rounds", type=int, nargs="+", default=[30], help="one number, or one for each batch")
    parser.add_argument("--prompt", type=int, default=PROMPT)
    parser.add_argument("--profiled", type=int, default=4, help="rounds under vLLM's profiler, of the first batch")
    given = parser.parse_args()
    if given.read:
        print(report(json.loads(given.read.read_text())))
    elif given.model and given.out:
        run(given)
    else:
        parser.error("--model and --out, or --read")


def run(given) -> None:
    from engine import Engine

    given.out.mkdir(parents=True, exist_ok=True)
    engine = Engine(given.model, eager=given.eager, profiler=given.out / "profiler")
    arms, found = Arms(given.out), {"batches": {}, "recordings": []}
    found["recordings"] = arms.told

    def save() -> None:
        (given.out / "overhead.json").write_text(json.dumps(found) + "\n")

    rounds = given.rounds * len(given.batch) if len(given.rounds) == 1 else given.rounds
    for batch, count in zip(given.batch, rounds, strict=True):
        engine.run(batch, given.prompt, STEPS)
        turns = [STATES[turn % 3 :] + STATES[: turn % 3] for turn in range(count)]
        found["batches"][str(batch)] = measured(engine, arms, batch, given.prompt, turns)
        save()
    found["waits"] = {state: waits(engine, arms, state, given) for state in STATES}
    save()
    if given.profiled:
        arms.enter("off")
        found["profiler"] = profiled(engine, given.batch[0], given.prompt, given.profiled)
        save()
    print(report(found))


def measured(engine, arms: Arms, batch: int, prompt: int, turns) -> dict[str, list]:
    """state -> one arm a round: (ms, processor ms) of each step."""
    found: dict[str, list] = {state: [] for state in STATES}
    for number, turn in enumerate(turns):
        for state in turn:
            arms.enter(state)
            found[state].append(engine.run(batch, prompt, STEPS)[SETTLE:])
            arms.leave(state)
        said = ", ".join(f"{state} {median(found[state][-1]):.3f}" for state in STATES)
        print(f"batch {batch} round {number + 1}: {said} ms", file=sys.stderr, flush=True)
    return found


def profiled(engine, batch: int, prompt: int, rounds: int) -> dict[str, list]:
    """Arms without and with vLLM's profiler in turn; starting and stopping it is not in its steps, but in ``held_s``."""
    found: dict[str, list] = {"off": [], "profiler": [], "held_s": []}
    for _ in range(rounds):
        found["off"].append(engine.run(batch, prompt, STEPS)[SETTLE:])
        begun = time.perf_counter()
        engine.llm.start_profile()
        held = time.perf_counter() - begun
        found["profiler"].append(engine.run(batch, prompt, STEPS)[SETTLE:])
        begun = time.perf_counter()
        engine.llm.stop_profile()
        found["held_s"].append(held + time.perf_counter() - begun)
    return found


def waits(engine, arms: Arms, state: str, given) -> dict[str, int]:
    """Calls of the runtime that wait for the device in a prefill and TRACED decode steps, from a trace of torch's profiler."""
    import device_trace
    import torch

    batch, kinds = given.batch[0], torch.profiler.ProfilerActivity
    arms.enter(state)
    with torch.profiler.profile(
        activities=[kinds.CPU, kinds.CUDA] if torch.cuda.is_available() else [kinds.CPU]
    ) as made:
        engine.run(batch, given.prompt, TRACED)
    arms.leave(state)
    path = given.out / f"waits-{state}.json"
    made.export_chrome_trace(str(path))
    try:
        return device_trace.waits(path)
    finally:
        path.unlink()


def median(arm: list, which: int = 0) -> float:
    return statistics.median(step[which] for step in arm)


def report(found: dict) -> str:
    parts = [table(f"batch {batch}", arms) for batch, arms in found["batches"].items()]
    if "profiler" in found:
        held = found["profiler"].pop("held_s")
        parts.append(table("vLLM's profiler", found["profiler"]))
        parts.append(f"starting and stopping the profiler held the engine for {statistics.median(held):.1f} s an arm")
    parts.append(f"waiting calls of 1 prefill and {TRACED} decode steps: {json.dumps(found.get('waits'))}")
    return "\n\n".join(parts)


def table(title: str, arms: dict[str, list]) -> str:
    """Medians over all steps of a state; ratios to ``off``, with a 95 % interval of a bootstrap over rounds."""
    lines = [
        f"{title}: {len(arms['off'])} rounds",
        "| state | ms/step, median (of rounds: min-max) | ratio to off (95 %) | processor ms/step | ratio to off (95 %) |",
        "|---|---:|---:|---:|---:|",
    ]
    for state, rounds in arms.items():
        cells = []
        for which in (0, 1):
            each = [median(arm, which) for arm in rounds]
            spread = f" ({min(each):.3f}-{max(each):.3f})" if which == 0 else ""
            cells += [f"{pooled(rounds, which):.3f}{spread}", ratio(rounds, arms["off"], which)]
        lines.append(f"| {state} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def pooled(rounds: list, which: int) -> float:
    return statistics.median(step[which] for arm in rounds for step in arm)


def ratio(rounds: list, base: list, which: int) -> str:
    """Rounds are drawn with replacement, a state's arm always with the base's arm of the same round."""
    if rounds is base:
        return "1"
    draw, ratios = random.Random(0), []
    pairs = [(median(a, which), median(b, which)) for a, b in zip(rounds, base, strict=True)]
    for _ in range(DRAWS):
        drawn = draw.choices(pairs, k=len(pairs))
        ratios.append(statistics.median(a for a, _ in drawn) / statistics.median(b for _, b in drawn))
    ratios.sort()
    low, high = ratios[round(0.025 * DRAWS)], ratios[round(0.975 * DRAWS) - 1]
    return f"{pooled(rounds, which) / pooled(base, which):.4f} ({low:.3f}-{high:.3f})"


if __name__ == "__main__":
    main()
