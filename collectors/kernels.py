"""Profiler windows, on request only: kernel times of a few steps, on every rank at the same step numbers.

A window is refused when its trace would not fit, while vLLM's own profiler runs, and while another window does. Hooks
stand only from the request until the step rate after the window has been measured.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from m3probe.collectors import _kernels_size as size
from m3probe.collectors._kernels_rate import LOST, Rate, compared
from m3probe.collectors._kernels_window import Window, busy, trace_name
from m3probe.collectors._part import Collector, Part
from m3probe.collectors._patch import around
from m3probe.schema import control, records
from m3probe.schema.roles import Role

if TYPE_CHECKING:
    from m3probe.collectors._probe import Probe

STEP, SAMPLE = "profile_step", "profile_sample"
MOST_STEPS = 1000
PATIENCE_S = 60.0
"""How long steps are waited for to measure the rate after a window."""


class Kernels(Part):
    """At most one window at a time: waiting for its step, running, being written, or its step rate being watched."""

    def __init__(self, probe: Probe) -> None:
        super().__init__(probe)
        self._window: Window | None = None
        self._before: float | None = None
        self._rate = Rate()
        self._written: threading.Thread | None = None
        self._until = 0.0
        self._bytes_per_step = 0.0
        self._lock = threading.Lock()

    # -- control thread ------------------------------------------------------------------------------------------

    def ask(self, message: control.Ask) -> control.Answer | None:
        """Take a window on, or say why not."""
        if not isinstance(message, control.ProfileWindow):
            return None
        with self._lock:
            if message.steps == 0:
                return self._taken_back()
            why = self._refusal(message)
            if why is not None:
                return why
            self._window, self._before = Window(message.at, message.steps, message.most_bytes), None
            self._rate.restart()
        step = around(self.probe.patches, STEP, before=self._step, after=self._stepped)
        sample = around(self.probe.patches, SAMPLE, after=lambda *_args, **_names: self._close_if_over())
        if not (self.probe.hook(STEP, step) and self.probe.hook(SAMPLE, sample)):
            self._leave()
            return control.Refused(text="this vLLM has no seam for a step", next_move="Use /start_profile of vLLM")
        return control.Done(text=f"{message.steps} steps from step {message.at} on; this is step {self.probe.step}")

    def _refusal(self, message: control.ProfileWindow) -> control.Refused | None:
        worker, folder = self.probe.host(Role.WORKER), self.probe.folder
        if not self.probe.recording or folder is None:
            return control.Refused(text="nothing is recorded", next_move="Arm first: the trace goes into its folder")
        if self._window is not None:
            return control.Refused(
                text=f"a window waits or runs from step {self._window.at} on", next_move="Wait for it"
            )
        if not 1 <= message.steps <= MOST_STEPS:
            return control.Refused(text=f"{message.steps} steps; 1 to {MOST_STEPS:,} are possible")
        if message.at <= self.probe.step:
            return control.Refused(text=f"step {message.at} is over, this is {self.probe.step}", next_move="Ask later")
        if busy(worker):
            return control.Refused(text=busy(worker), next_move="Stop that one first")
        asked = size.expected(message.steps, size.layers(worker), size.captures(worker), self._bytes_per_step)
        why = size.too_large(asked, message.most_bytes, folder)
        return control.Refused(text=why, next_move="Ask for fewer steps") if why else None

    def _taken_back(self) -> control.Answer:
        window = self._window
        if window is None or window.first >= 0:
            return control.Refused(text="no window waits")
        self._end(window, "failed", "taken back")
        return control.Done(text="the window was taken back")

    # -- worker's thread -----------------------------------------------------------------------------------------

    def _step(self, worker: Any, scheduler_output: Any, *_args: Any, **_names: Any) -> Any:
        window = self._window
        if window is None or scheduler_output.total_num_scheduled_tokens <= 0:
            return None
        self._close_if_over()
        if window.first < 0 and self.probe.step >= window.at:
            self._before = self._rate.steps_per_s()
            window.start(worker, self.probe.step)
        self._rate.step(time.monotonic_ns())
        return window.step(scheduler_output) if window.running else None

    def _stepped(self, label: Any, result: Any, *_args: Any, **_names: Any) -> None:
        window = self._window
        if label is None:
            return
        label.__exit__(None, None, None)
        if window is None:
            return
        window.ran += 1
        if result is not None:  # nothing is left to sample
            self._close_if_over()

    def _close_if_over(self) -> None:
        window = self._window
        if window is None or not window.running or window.ran < window.steps:
            return
        window.stop()
        folder, worker = self.probe.folder, self.probe.host(Role.WORKER)
        if not window.failed and folder is not None:
            args = (window, folder, trace_name(worker))
            self._written = threading.Thread(target=self._write, args=args, name="m3probe-trace", daemon=True)
            self._written.start()

    # -- threads of the probe ------------------------------------------------------------------------------------

    def _write(self, window: Window, folder: Path, name: str) -> None:
        window.export(folder, name)
        if window.bytes > 0:
            self._bytes_per_step = window.bytes / max(window.ran, 1)
        self._rate.restart()
        self._until = time.monotonic() + PATIENCE_S

    def tick(self) -> None:
        """Finish a window once the rate after it is known."""
        window = self._window
        if window is None:
            return
        if window.failed:
            self._end(window, "failed", window.failed)
        elif window.export_ns >= 0 and (self._rate.full or time.monotonic() > self._until):
            self._finish(window)

    def disarm(self) -> None:
        """The recording ends: finish or drop the window. An open profiler is closed by the next step's own thread."""
        window = self._window
        if window is None:
            return
        if self._written is not None:
            self._written.join(2.0)
        if window.export_ns >= 0 and not window.failed:
            self._finish(window)
            return
        self._end(window, "failed", window.failed or f"the recording ended before step {window.at + window.steps}")
        if window.running:
            self.probe.hook(STEP, around(self.probe.patches, STEP, before=lambda *_a, **_n: self._drop(window)))

    def _drop(self, window: Window) -> None:
        self.probe.unhook(STEP)
        if window.running:
            window.discard()

    def _finish(self, window: Window) -> None:
        after = self._rate.steps_per_s()
        held = f"the worker was held for {window.held_ns / 1e9:.2f} s"
        text = f"{compared(self._before, after)}; {held}"
        if window.bytes > window.most_bytes:
            text += f"; the trace took {window.bytes / 1e6:,.0f} MB, more than asked for"
        if self._before is not None and after is not None and after < LOST * self._before:
            self.probe.note("step_rate", compared(self._before, after))
        self._end(window, "done", text, after)

    def _end(self, window: Window, state: str, text: str, after: float | None = None) -> None:
        self.probe.put(
            records.Kernels(
                state=state,
                path=window.path,
                first_step=window.first,
                steps=window.ran,
                text=text,
                before_steps_per_s=self._before,
                after_steps_per_s=after,
                bytes=window.bytes,
                held_ns=window.held_ns,
                export_ns=window.export_ns,
            )
        )
        self._leave()

    def _leave(self) -> None:
        self._window = self._written = None
        self.probe.unhook(STEP, SAMPLE)


COLLECTOR = Collector(
    title="Kernel times of a few steps, by profiler windows on request",
    roles=(Role.WORKER,),
    make=Kernels,
    seams=(STEP, SAMPLE),
    order=80,
)
