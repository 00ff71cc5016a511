"""One recording: guests armed, /metrics scraped, progress told, and everything given back at its end."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from m3probe.attach import proc as processes
from m3probe.attach import vllm_profiler
from m3probe.attach.asked import Asked, Told
from m3probe.attach.crew import Crew, Guest
from m3probe.attach.fetch import Client
from m3probe.attach.metrics import Series
from m3probe.attach.recording import HostFile, Tail
from m3probe.attach.windows import ROWS_S, Windows, twin_cost
from m3probe.model.attach_report import Now, NowRow, Window
from m3probe.schema import records
from m3probe.schema.roles import Role

TICK_S = 1.0
RATE_S = 5.0
"""The step rate that progress shows is taken over so long."""


@dataclass(slots=True)
class Session:
    """What is recorded, from whom, and until when.

    Args:
        crew: the server's processes; None where only its address is known.
        series: its scrapes; None where it cannot be scraped.
    """

    asked: Asked
    told: Told
    folder: Path
    crew: Crew | None
    series: Series | None
    client: Client | None = None
    host: HostFile = field(init=False)
    windows: Windows | None = field(init=False)
    tail: Tail = field(init=False)
    began: float = 0.0
    seconds: float = 0.0
    ended: str = ""
    scrapes: int = 0
    rows: dict[int, int] = field(default_factory=dict)
    by_address: list[Window] = field(default_factory=list)
    _first_steps: int = -1
    _vllm_steps: int = -1
    _moved: tuple[int, float] = (-1, 0.0)
    """The last number of steps that was another one, and when it was."""

    def __post_init__(self) -> None:
        self.host, self.tail = HostFile(self.folder), Tail(self.folder)
        self.windows = Windows(self.crew, self.told.say, self.rate, self._drain) if self.crew else None

    def run(self) -> None:
        """Record until it is over; whatever happens, the guests are disarmed."""
        self.began = time.monotonic()
        try:
            with interruptible():
                self._arm()
                self._open_windows()
                self._until_over()
        except KeyboardInterrupt:
            self.ended = "interrupted"
        finally:
            self.seconds = time.monotonic() - self.began
            with uninterrupted():
                self._close()

    def keep(self, *these: records.AnyRecord) -> None:
        """Facts of ``attach``'s own for the recording."""
        self.host.put(*these)

    @property
    def steps(self) -> int:
        """Steps since the start: those of the slowest worker, else as vLLM counts them; -1 where nobody does."""
        counted = [w.steps for w in (self.crew.with_state("recorded", "lost") if self.crew else ()) if _works(w)]
        alive = [w.steps for w in (self.crew.workers() if self.crew else ())]
        known = [steps for steps in alive or counted if steps >= 0]
        if any(known):
            return min(known)  # none at all: the seam is not there, or nothing ran, which vLLM's own counter tells
        return self._vllm_steps - self._first_steps if self._first_steps >= 0 else -1

    @property
    def ended_windows(self) -> list[Window]:
        """All that were asked for, as they ended."""
        return [*(self.windows.ended if self.windows else ()), *self.by_address]

    def rate(self) -> float:
        """Steps per second of the slowest worker over the last seconds."""
        rates = [rate for w in (self.crew.workers() if self.crew else ()) if (rate := _rate(w)) is not None]
        return min(rates, default=0.0)

    def _arm(self) -> None:
        if self.crew is None:
            return
        rows_s = max(self.asked.full_rows_s, ROWS_S if self.asked.twin or self.asked.profile else 0.0)
        self.crew.arm(self.folder, windows=rows_s, routing=self.asked.routing, overlap=self.asked.overlap)
        self.began = time.monotonic()

    def _open_windows(self) -> None:
        if self.windows is None or not self.crew or not self.crew.workers():
            if self.asked.profile and self.client:
                self._look()
                done = vllm_profiler.window(self.client, self.asked.profile, self._turn, lambda: self.steps)
                self.by_address.append(done)
            return
        if self.asked.twin or self.asked.profile:
            self._look()
            time.sleep(TICK_S)
            self._look()
        if self.asked.twin:
            self.told.say(twin_cost(self.asked.twin))
            self.windows.open("twin", self.asked.twin)
            while self.windows.waiting and self._goes_on():
                self._turn()
        if self.asked.profile:
            self.windows.open("profile", self.asked.profile)

    def _until_over(self) -> None:
        while self._goes_on():
            if self._is_over() and not (self.windows and self.windows.waiting):
                return
            self._turn()
        self.ended = "the server has ended"

    def _turn(self) -> None:
        """One second: ask, scrape, read along, tell."""
        due = time.monotonic() + TICK_S
        self._look()
        self._drain()
        if self.windows:
            self.windows.watch()
        self.told.show(self._now())
        left = TICK_S if self.windows and self.windows.waiting else self._left()
        time.sleep(max(0.0, min(due - time.monotonic(), left)))

    def _look(self) -> None:
        if self.crew:
            self.crew.poll()
            for guest in self.crew.with_state("recorded"):
                guest.rates = [*guest.rates[-20:], (time.monotonic(), guest.status.step if guest.status else -1)]
        self._scrape(whole=self.scrapes == 0)

    def _scrape(self, *, whole: bool) -> None:
        """``whole``: all values, buckets too: at both ends of a recording."""
        before = self.series.last if self.series else None
        got = self.series.next() if self.series else None
        if got is None:
            return
        self.host.put(*got.samples(None if whole else before))
        self.scrapes += 1
        self._vllm_steps = got.steps
        if self._first_steps < 0 or got.steps < self._first_steps:
            self._first_steps = got.steps  # also after a restart

    def _drain(self) -> None:
        for pid, record in self.tail.new():
            if isinstance(record, records.StepCounts):
                self.rows[pid] = self.rows.get(pid, 0) + sum(count.rows_sum for count in record.steps)
            elif isinstance(record, records.Process) and self.crew:
                for guest in self.crew.all:
                    if guest.pid == pid:
                        guest.env = dict(record.env)
            if self.windows:
                self.windows.seen(pid, record)

    def _is_over(self) -> bool:
        if self.asked.steps is not None and self.steps >= self.asked.steps:
            self.ended = "steps"
        elif self.asked.seconds is not None and self._left() <= 0:
            self.ended = "seconds"
        elif self.asked.idle_s is not None and self._idle_for() >= self.asked.idle_s:
            self.ended = "idle"
        return bool(self.ended)

    def _idle_for(self) -> float:
        """Seconds since the number of steps last changed, or since the start."""
        now = time.monotonic()
        if self._moved[0] != self.steps or not self._moved[1]:
            self._moved = (self.steps, now)
        return now - self._moved[1]

    def _left(self) -> float:
        if self.asked.seconds is None:
            return TICK_S
        return max(self.asked.seconds - (time.monotonic() - self.began), 0.0)

    def _goes_on(self) -> bool:
        """Whether anybody is there to be recorded."""
        lost = self.crew.with_state("lost") if self.crew else []
        here = self.crew.with_state("recorded") if self.crew else []
        # an API server whose engine has died serves nobody, and may wait long for its last connection to close
        if here and not (lost and all(guest.status and guest.status.role is Role.API for guest in here)):
            return True
        if lost:
            return False
        return self.series is not None and (self.scrapes == 0 or self.series.in_a_row < 3)

    def _close(self) -> None:
        if self.windows and self.windows.waiting:
            self.windows.give_up("the recording ended before it was over")
        if self.crew:
            self.crew.disarm()
        self._scrape_last()
        self._drain()
        for record in self._hosts():
            self.host.put(record)
        self.host.close("detached")

    def _scrape_last(self) -> None:
        if self.series and self.scrapes and self.series.in_a_row == 0:
            self._scrape(whole=True)

    def _hosts(self) -> Iterator[records.Host]:
        """Limits and use of the processes that have no guest to tell them."""
        for guest in self.crew.with_state("no guest", "refused") if self.crew else ():
            use = processes.use(guest.pid, self.asked.proc)
            yield records.Host(
                mono_ns=time.monotonic_ns(),
                pid=guest.pid,
                role=str(guest.role),
                fds=use.fds,
                fd_soft=use.fd_soft,
                fd_hard=use.fd_hard,
                threads=use.threads,
                rss_bytes=use.rss_bytes,
                cpu_ns=use.cpu_ns,
            )

    def _now(self) -> Now:
        last = self.series.last if self.series else None
        rows = tuple(_row(guest, self.rows.get(guest.pid, -1)) for guest in (self.crew.all if self.crew else ()))
        return Now(
            seconds=time.monotonic() - self.began,
            steps=self.steps,
            rows=rows,
            running=_sum(last.named("vllm:num_requests_running")) if last else None,
            waiting=_sum(last.named("vllm:num_requests_waiting")) if last else None,
            folder=str(self.folder),
        )


@contextmanager
def interruptible() -> Iterator[None]:
    """End as at Ctrl-C where the terminal goes away or a supervisor asks: no guest stays armed."""

    def stop(*_args: Any) -> None:
        raise KeyboardInterrupt

    with _handlers(dict.fromkeys((signal.SIGTERM, signal.SIGHUP, signal.SIGINT), stop)):
        yield


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Nothing cuts the end short; it is bounded by the guests' own seconds."""
    with _handlers(dict.fromkeys((signal.SIGTERM, signal.SIGHUP, signal.SIGINT), signal.SIG_IGN)):
        yield


@contextmanager
def _handlers(wanted: dict[signal.Signals, Any]) -> Iterator[None]:
    before = {name: signal.signal(name, handler) for name, handler in wanted.items()}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)


def _row(guest: Guest, rows: int) -> NowRow:
    status = guest.status
    return NowRow(
        name=guest.name,
        state=guest.state,
        steps_per_s=_rate(guest),
        rows=rows,
        records=status.records if status else -1,
        bytes=status.bytes if status else -1,
        dropped=sum(status.dropped.values()) if status else -1,
    )


def _rate(guest: Guest) -> float | None:
    recent = [look for look in guest.rates if look[0] > time.monotonic() - RATE_S]
    if len(recent) < 2 or recent[-1][0] <= recent[0][0]:
        return None
    return (recent[-1][1] - recent[0][1]) / (recent[-1][0] - recent[0][0])


def _sum(values: list[float]) -> float | None:
    return sum(values) if values else None


def _works(guest: Guest) -> bool:
    return Role.WORKER in guest.roles
