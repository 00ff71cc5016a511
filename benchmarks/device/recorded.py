"""What the probe claims, record by record as it wrote it: no reader and no analyzer of m3probe takes part."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from m3probe.schema import records
from m3probe.schema.frames import MAGIC, Cut
from m3probe.schema.frames import records as framed
from m3probe.schema.roles import Role, Stage


class Guest:
    """The records of one worker, and which of its steps its profiler window had."""

    def __init__(self, folder: Path) -> None:
        (path,) = folder.glob("worker-*.m3p")
        self.records = list(framed(path.read_bytes(), Cut(), len(MAGIC)))
        windows = self.all(records.Kernels)
        self.trace = folder / windows[0].path if windows else None
        rows = [r for r in self.all(records.StepRow) if r.role is Role.WORKER]
        self.steps = [r for r in rows for w in windows if w.first_step <= r.step < w.first_step + w.steps]
        self.descriptors = {d.id: d for d in self.all(records.Descriptor)}

    def all(self, kind: type) -> list:
        return [r for r in self.records if isinstance(r, kind)]

    @property
    def replays(self) -> Counter:
        """Descriptor -> steps of the window that replayed it."""
        return Counter(step.descriptor for step in self.steps if step.replays)

    def counted(self) -> list[records.StepCount]:
        """The worker's steps of the whole recording, by kind."""
        return [c for told in self.all(records.StepCounts) for c in told.steps if c.role is Role.WORKER]

    def census(self) -> dict[int, list[records.Census]]:
        """Descriptor -> its graphs, piece by piece."""
        found: dict[int, list[records.Census]] = {}
        for census in self.all(records.Census):
            found.setdefault(census.descriptor, []).append(census)
        return found

    def replayed(self) -> Counter:
        """Kernel name -> how often the window's replays ran it, by the census."""
        census, total = self.census(), Counter()
        for descriptor, times in self.replays.items():
            for graph in census.get(descriptor, []):
                for kernel in graph.kernels:
                    total[kernel.name] += times
        return total

    def calls(self, path: str, variant: str) -> int:
        """Calls of a path in the window's FULL replays: facts of capture times counted replays.

        Several seams of one path see the same work: the one with the most calls stands.
        """
        seen: Counter = Counter()
        for fact in self.all(records.Dispatch):
            of = self.descriptors.get(fact.descriptor)
            told = (fact.path, fact.variant) == (path, variant) and fact.stage is Stage.CAPTURE
            if told and of is not None and of.mode == "FULL":
                seen[fact.seam] += fact.count * self.replays[fact.descriptor]
        return max(seen.values(), default=0)

    def eager_per_step(self, path: str, variant: str, phase: str) -> float:
        """Calls of a path in each eager step of a phase, over the whole recording."""
        steps = sum(c.count for c in self.counted() if c.phase == phase and c.mode == "NONE")
        seen: Counter = Counter()
        for fact in self.all(records.Dispatch):
            said = (fact.path, fact.variant, fact.phase, fact.stage)
            if said == (path, variant, phase, Stage.EAGER) and fact.descriptor < 0:
                seen[fact.seam] += fact.count
        return max(seen.values(), default=0) / steps if steps else 0.0
