"""What the probe costs inside vLLM: CPU microseconds per step and process, hook calls, and bytes of recording per hour.

    python benchmarks/bench_collectors.py [--rounds N] [--minutes N] [--recording DIR]

Drives the real hooks on stand-ins with vLLM's names and signatures (tests/steps_kit.py) and takes the stand-ins' own time
off. ``--recording`` adds bytes per second, process and kind of record of a recording of a real server. No vLLM is needed.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import random
import statistics
import sys
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

STEPS, OURS = 2_000, "/collectors/"
LAYERS, HIDDEN = 60, 6_144
"""Of MiniMax M3: an eager step makes two all-reduces a layer and one for the embedding."""
SIZES = [1, 2, 4, 8, *range(16, 257, 8)]


def cpu_us(call: Callable[[], Any], times: int) -> float:
    """CPU microseconds of this thread for one call."""
    started = time.thread_time_ns()
    for _ in range(times):
        call()
    return (time.thread_time_ns() - started) / times / 1e3


def decode(requests: int) -> Any:
    from steps_kit import scheduled

    return scheduled(cached={f"request-{n}": (500 + n, 1, 9) for n in range(requests)})


def mixed(requests: int) -> Any:
    from steps_kit import scheduled

    cached = {f"request-{n}": (500 + n, 1, 9) for n in range(requests)} | {"long": (2_048, 2_048, 0)}
    return scheduled({f"new-{n}": (0, 512) for n in range(8)}, cached)


def graphs(pieces: int = 0) -> Any:
    """A V2 runner with FULL graphs of all sizes, or one that replays so many compiled pieces a step."""
    from steps_kit import Execution, Mode, RunnerV1, RunnerV2

    if pieces:
        runner = RunnerV1()
        replayed = runner.graph
        runner.graph = SimpleNamespace(replay=lambda: [replayed.replay() for _ in range(pieces)])
        return runner
    made = RunnerV2([Execution(Mode.FULL, size, size, 1) for size in SIZES])
    made.cudagraph_manager.capture(made.create)
    made.profiled.clear()
    return made


def no_graphs() -> Any:
    from steps_kit import RunnerV1

    return RunnerV1()


def worker_case(make: Callable[[], Any], output: Any) -> tuple[Any, Any]:
    from steps_kit import Worker

    worker = Worker(make())
    return worker, lambda: worker.step(output)


def engine_case(output: Any) -> tuple[Any, Any]:
    from steps_kit import Scheduler

    scheduler = Scheduler()

    def step() -> None:
        scheduler.schedule(output)
        scheduler.update_from_output(output, None)

    return scheduler, step


CASES: dict[str, Callable[[], tuple[Any, Any]]] = {
    "worker, V2 FULL replay, 1 request": lambda: worker_case(graphs, decode(1)),
    "worker, V2 FULL replay, 64 requests": lambda: worker_case(graphs, decode(64)),
    "worker, V2 FULL replay, 256 requests": lambda: worker_case(graphs, decode(256)),
    "worker, V2 eager, 64 decoding + 9 in their prompts": lambda: worker_case(graphs, mixed(64)),
    "worker, V1 eager, 64 decoding + 9 in their prompts": lambda: worker_case(no_graphs, mixed(64)),
    f"worker, V1 {LAYERS + 1} replayed pieces, 8 requests": lambda: worker_case(lambda: graphs(LAYERS + 1), decode(8)),
    "engine, 64 requests": lambda: engine_case(decode(64)),
    "engine, 256 requests": lambda: engine_case(decode(256)),
}


@contextlib.contextmanager
def recording(host: Any) -> Iterator[tuple[Any, Any]]:
    """The steps collector of one process, armed: its probe and itself."""
    from steps_kit import MADE, Scheduler, armed

    from m3probe.schema.roles import Role

    probe, part = armed(Role.ENGINE if isinstance(host, Scheduler) else Role.WORKER, host)
    try:
        yield probe, part
    finally:
        probe.patches.undo()
        MADE.clear()


def measured(case: Callable[[], tuple[Any, Any]], rounds: int) -> tuple[list[float], list[float], float, float, float]:
    """(us per step in vLLM's thread, us per step in the writer's), calls, objects and bytes kept per step."""
    from m3probe.schema.frames import frame

    host, step = case()
    hooks, writer = [], []
    for _ in range(rounds):
        bare = cpu_us(step, STEPS)
        with recording(host) as (probe, part):
            hooks.append(cpu_us(step, STEPS) - bare)
            part.tick()
            probe.told.clear()
            for _ in range(100):  # a second at 100 steps
                step()
            writer.append(cpu_us(lambda: (part.tick(), [frame(told) for told in probe.told]), 1) / 100)
    with recording(host) as (probe, part):
        step()
        calls = counted_calls(step)
        kept, size = kept_objects(step)
    return hooks, writer, calls, kept, size


def counted_calls(step: Callable[[], None]) -> int:
    """Calls of Python functions of the collectors in one step, exact."""
    calls = 0

    def seen(frame: Any, event: str, _argument: Any) -> None:
        nonlocal calls
        calls += event == "call" and OURS in frame.f_code.co_filename

    sys.setprofile(seen)
    try:
        step()
    finally:
        sys.setprofile(None)
    return calls


def kept_objects(step: Callable[[], None], steps: int = 500) -> tuple[float, float]:
    """(blocks, bytes) that a step leaves behind until the writer takes them, a second later."""
    gc.collect()
    gc.disable()
    try:
        tracemalloc.start()
        before, blocks = tracemalloc.get_traced_memory()[0], sys.getallocatedblocks()
        for _ in range(steps):
            step()
        return (sys.getallocatedblocks() - blocks) / steps, (tracemalloc.get_traced_memory()[0] - before) / steps
    finally:
        tracemalloc.stop()
        gc.enable()


def collective_us(rounds: int) -> list[float]:
    """CPU us of one all-reduce that is watched, with the backend's mark inside it."""
    from m3probe.collectors._bytes_calls import Calls
    from m3probe.collectors._bytes_kinds import KINDS
    from m3probe.collectors._patch import Patches

    class Group:
        unique_name, world_size = "tp:0", 8
        torch_distributed_backend, device_communicator = "nccl", None

        def carry(self, tensor: Any) -> Any:
            return tensor

        def all_reduce(self, tensor: Any) -> Any:
            return self.carry(tensor)

    patches, group, found = Patches(), Group(), []
    tensor = SimpleNamespace(nbytes=64 * HIDDEN * 2, dtype="torch.bfloat16")
    for _ in range(rounds):
        bare = cpu_us(lambda: group.all_reduce(tensor), STEPS)
        calls = Calls(patches)
        patches.put("comm_all_reduce", Group, "all_reduce", calls.watch("comm_all_reduce", KINDS["comm_all_reduce"]))
        patches.put("backend_custom", Group, "carry", calls.mark("backend_custom", "custom"))
        found.append(cpu_us(lambda: group.all_reduce(tensor), STEPS) - bare)
        patches.undo()
    return found


def statistics_us(rounds: int) -> list[float]:
    """CPU us of the API server's hook for one step's statistics."""
    from m3probe.collectors._stat_logger import StatTap

    found = []
    for _ in range(rounds):
        step = partial(StatTap().record, None, None, None, SimpleNamespace(), SimpleNamespace(), None, 0)
        found.append(cpu_us(step, STEPS))
    return found


def day(seconds: int, seed: int = 7) -> Iterator[list[tuple[Any, int, str, int]]]:
    """Seconds of 100 steps of a busy server: requests come and go, three steps a second take prompts in, eager.

    Yields (plan's output, padded rows, mode, number of the step's graph).
    """
    from steps_kit import scheduled

    draw, running = random.Random(seed), 48
    for _ in range(seconds):
        steps = []
        for at in range(100):
            running = max(1, min(256, running + draw.choice((-1, 0, 0, 0, 1))))
            cached = {str(n): (500, 1, 9) for n in range(running)}
            if at % 33 == 7:
                new = {f"n{n}": (0, draw.randrange(16, 4_096)) for n in range(draw.randrange(1, 4))}
                output = scheduled(new, cached)
                steps.append((output, output.total_num_scheduled_tokens, "NONE", -1))
            else:
                size = next(s for s in SIZES if s >= running)
                steps.append((scheduled(cached=cached), size, "FULL", SIZES.index(size)))
        yield steps


def bytes_per_hour(minutes: int) -> dict[str, float]:
    """MB an hour of steps alone, of one worker and of the engine."""
    from m3probe.collectors._steps_count import Done, counts
    from m3probe.collectors._steps_plan import plan_of
    from m3probe.schema.frames import frame
    from m3probe.schema.records import StepCounts
    from m3probe.schema.roles import Role, Stage

    draw, size, now, first = random.Random(1), Counter[str](), 10**15, 0
    for steps in day(minutes * 60):
        done = []
        for output, padded, mode, descriptor in steps:
            now += 10_000_000
            times = [now, *(now + draw.randrange(1_000_000, 9_000_000) for _ in range(4))]
            plan = plan_of(output)
            kept = Done(
                first, plan, mode, descriptor, padded, int(mode == "FULL"), 0, Stage.EAGER, *sorted(times), 90_000
            )
            done.append(kept)
        for role in (Role.WORKER, Role.ENGINE):
            if role is Role.ENGINE:
                done = [d._replace(mode="", descriptor=-1, padded_rows=d.plan.rows, replays=0) for d in done]
            size[role] += len(frame(StepCounts(mono_ns=now, first=first, steps=counts(done, role))))
        first += len(steps)
    return {role: total / minutes * 60 / 1e6 for role, total in size.items()}


def of_recording(folder: Path) -> Iterator[tuple[str, float, dict[str, float]]]:
    """(file, steps per second, bytes per second by kind of record) of a real one, over the seconds that had steps.

    Records of start-up are left out. The API server has no steps: its seconds are those with statistics of iterations.
    """
    from m3probe.schema import frames, records

    counted = (records.StepCounts, records.Sample, records.Request, records.Collective, records.Dispatch, records.Host)
    for path in sorted(folder.glob(f"*{frames.SUFFIX}")):
        size, steps, seconds = Counter[str](), 0, 0
        for record in frames.records(path.read_bytes(), frames.Cut(), len(frames.MAGIC)):
            if isinstance(record, records.StepCounts):
                busy = sum(step.count for step in record.steps if step.phase != "empty")
                steps, seconds = steps + busy, seconds + bool(busy)
            elif isinstance(record, records.Sample) and record.source == "iteration":
                seconds += 1
            if isinstance(record, counted) and getattr(record, "stage", "eager") in {"eager", "twin"}:
                size[type(record).__name__] += len(frames.frame(record))
        if seconds:
            yield path.name, steps / seconds, {name: total / seconds for name, total in size.items()}


def stand_ins() -> None:
    from steps_kit import MODULES

    for name, held in MODULES.items():
        module = ModuleType(name)
        vars(module).update(held)
        sys.modules[name] = module
    if "torch" not in sys.modules:
        compiler = ModuleType("torch.compiler")
        compiler.is_compiling = lambda: False  # type: ignore[attr-defined]
        sys.modules["torch.compiler"] = compiler


def spread(values: list[float]) -> str:
    return f"{statistics.median(values):.2f} ({min(values):.2f}-{max(values):.2f})"


def main() -> None:
    """Measure and print Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--minutes", type=int, default=10, help="simulated time of the recording")
    parser.add_argument("--recording", type=Path)
    given = parser.parse_args()
    stand_ins()
    print("| process and step | CPU us, vLLM's thread | CPU us, writer | calls of ours | objects kept | bytes kept |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for name, case in CASES.items():
        hooks, writer, calls, kept, size = measured(case, given.rounds)
        print(f"| {name} | {spread(hooks)} | {spread(writer)} | {calls} | {kept:.1f} | {size:.0f} |")
    print(f"| API server, statistics of one step | {spread(statistics_us(given.rounds))} | | | | |")
    one = collective_us(given.rounds)
    eager = [each * (2 * LAYERS + 1) for each in one]
    print(f"| one all-reduce, its backend told | {spread(one)} | | | | |")
    print(f"| all-reduces of an eager step of {LAYERS} layers | {spread(eager)} | | | | |")
    steps = bytes_per_hour(given.minutes)
    print("\n| recording at 100 steps/s | MB/hour |\n| --- | ---: |")
    for role, found in steps.items():
        print(f"| steps of one {role} | {found:.2f} |")
    print(f"| steps of 8 workers and an engine | {8 * steps['worker'] + steps['engine']:.1f} |")
    if given.recording is not None:
        for name, rate, rates in of_recording(given.recording):
            told = ", ".join(f"{kind} {size:.0f}" for kind, size in sorted(rates.items(), key=lambda item: -item[1]))
            print(f"| {name}, {rate:.0f} steps/s: {told} B/s | {sum(rates.values()) * 3600 / 1e6:.2f} |")


if __name__ == "__main__":
    main()
