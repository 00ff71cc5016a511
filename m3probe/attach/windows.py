"""Requests that take effect at one step on every rank: twin steps without replay, and profiler windows."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from m3probe.attach.align import Start, by_rows, standing
from m3probe.attach.crew import Crew, Guest
from m3probe.model.attach_report import Window
from m3probe.schema import records
from m3probe.schema.control import Done, ProfileWindow, Twin

MARGIN_STEPS = 20
MARGIN_S = 2.0
"""Between the request and its step: the slowest rank must have heard of it."""
ALIGN_S = 15.0
STALL_S = 90.0
"""Without a step for so long, a window that waits is given up; a guest itself waits 60 s for the rate after one."""
ROWS_S = 20.0
"""Seconds of full rows that arming asks for where ranks must be aligned."""
MOST_TRACE = 4 * 1024**3
RETURN = 0.95
"""The step rate after a window, as a part of the one before, below which it is reported."""


def twin_cost(steps: int) -> str:
    """What ``--eager-twin`` costs, said before it."""
    return (
        f"--eager-twin {steps}: every rank runs the same {steps} steps without graph replay, so they take as long as "
        "eager steps do (with small batches several times the replay's time); what is seen in them is labelled `twin`: "
        "it shows which path eager code takes, not that a replay took it"
    )


@dataclass(slots=True)
class Windows:
    """What was asked of the ranks, and how it ended.

    Args:
        rate: steps per second of a worker now.
        drain: hands new records of the guests to ``seen``.
    """

    crew: Crew
    say: Callable[[str], None]
    rate: Callable[[], float]
    drain: Callable[[], None]
    starts: dict[int, list[Start]] = field(default_factory=dict)
    ended: list[Window] = field(default_factory=list)
    _ends: dict[str, dict[int, int]] = field(default_factory=dict)
    """Kind -> pid -> the step after which it is over."""
    _moved: float = 0.0
    _last: dict[int, int] = field(default_factory=dict)

    def open(self, kind: str, steps: int) -> None:
        """Ask every worker for a window of ``steps`` steps; all or none.

        Args:
            kind: ``twin`` or ``profile``.
        """
        workers = self.crew.workers()
        offsets = self._aligned(workers)
        if offsets is None:
            text = "the ranks' step numbers cannot be matched while they run; pause the load for a second and try again"
            self.ended.append(Window(kind, -1, "refused", text))
            return
        margin = max(MARGIN_STEPS, math.ceil(self.rate() * MARGIN_S))
        at = max(_step(w) - offsets[w.pid] for w in workers) + margin
        taken: list[Guest] = []
        for worker in workers:
            said = self.crew.tell(worker, _message(kind, at + offsets[worker.pid], steps))
            if not isinstance(said, Done):
                self._take_back(kind, taken)
                move = getattr(said, "next_move", "")
                text = f"{getattr(said, 'text', 'no answer of this version')}{'. ' if move else ''}{move}"
                self.ended.append(Window(kind, worker.pid, "refused", text))
                return
            taken.append(worker)
        self._ends[kind] = {w.pid: at + offsets[w.pid] + steps for w in workers}
        self._moved = time.monotonic()
        self.say(f"{kind}: {steps} steps on {len(workers)} ranks, in {margin} steps")

    @property
    def waiting(self) -> bool:
        """Whether one is not over yet."""
        return bool(self._ends)

    def seen(self, pid: int, record: records.AnyRecord) -> None:
        """A record of a guest, as it came."""
        if isinstance(record, records.StepRow) and record.t_start is not None:
            self.starts.setdefault(pid, []).append(Start(record.step, record.t_start, record.rows))
        elif isinstance(record, records.Kernels) and self._ends.get("profile", {}).pop(pid, None) is not None:
            self.ended.append(_ended(pid, record))
            self._tidy()

    def watch(self) -> None:
        """Once a second: what is over, and what will never begin."""
        now = {w.pid: _step(w) for w in self.crew.workers()}
        if now != self._last:
            self._last, self._moved = now, time.monotonic()
        for kind, ends in list(self._ends.items()):
            for pid in [pid for pid in ends if pid not in now]:
                self.ended.append(Window(kind, pid, "failed", "its process has ended"))
                del ends[pid]
            for pid in [p for p, end in ends.items() if kind == "twin" and now[p] >= end]:
                self.ended.append(Window(kind, pid, "done"))
                del ends[pid]
        if self._ends and time.monotonic() - self._moved > STALL_S:
            self.give_up(f"no step ran for {STALL_S:.0f} s: send requests meanwhile")
        self._tidy()

    def give_up(self, why: str) -> None:
        """Nothing more is waited for."""
        for kind, ends in self._ends.items():
            self._take_back(kind, [guest for guest in self.crew.all if guest.pid in ends])
            self.ended += [Window(kind, pid, "failed", why) for pid in ends]
        self._ends.clear()

    def _aligned(self, workers: list[Guest]) -> dict[int, int] | None:
        """Offsets of the ranks' step numbers from the first one's."""
        if len(workers) == 1:
            return {workers[0].pid: 0}
        until = time.monotonic() + ALIGN_S
        while time.monotonic() < until:
            before = {w.pid: _step(w) for w in workers}
            time.sleep(1.0)
            self.crew.poll()
            found = standing(before, {w.pid: _step(w) for w in workers})
            self.drain()
            found = found or by_rows({w.pid: self.starts.get(w.pid, []) for w in workers})
            if found is not None:
                return found
        return None

    def _take_back(self, kind: str, taken: list[Guest]) -> None:
        for guest in taken:
            self.crew.tell(guest, _message(kind, 0, 0))

    def _tidy(self) -> None:
        self._ends = {kind: ends for kind, ends in self._ends.items() if ends}


def _message(kind: str, at: int, steps: int) -> Twin | ProfileWindow:
    return Twin(at=at, steps=steps) if kind == "twin" else ProfileWindow(at=at, steps=steps, most_bytes=MOST_TRACE)


def _step(guest: Guest) -> int:
    return guest.status.step if guest.status else -1


def _ended(pid: int, record: records.Kernels) -> Window:
    before, after = record.before_steps_per_s, record.after_steps_per_s
    text = record.text
    if before and after is not None and after < RETURN * before:
        text = f"{text + '; ' if text else ''}the step rate did not return: {before:.1f} -> {after:.1f} steps/s"
    return Window("profile", pid, record.state, text, record.path, record.steps, before, after)
