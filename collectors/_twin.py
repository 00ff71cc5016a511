"""The eager twin: for N steps every rank runs without replay, so that Python hooks see what graphs hide.

Asked for by hand, with its cost said first (N steps at eager speed). All ranks must begin at the same step: a rank that
replays while another launches one by one waits in its first collective, and one that dispatches otherwise may deadlock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from m3probe.collectors._now import NOW
from m3probe.schema import control
from m3probe.schema.roles import Role, Stage

if TYPE_CHECKING:
    from m3probe.collectors._probe import Probe

MOST_STEPS = 1_000


class Twins:
    """One planned twin at a time; its hook comes off with the recording's."""

    def __init__(self, probe: Probe) -> None:
        self.probe = probe
        self._at = self._end = -1

    def plan(self, ask: control.Twin) -> control.Answer:
        """Run steps ``at`` to ``at + steps`` without replay."""
        if not 0 < ask.steps <= MOST_STEPS:
            return control.Refused(text=f"{ask.steps} steps: a twin has 1 to {MOST_STEPS}")
        if ask.at <= self.probe.step:
            text = f"step {ask.at} is over here (now {self.probe.step})"
            return control.Refused(text=text, next_move="Ask for a later step")
        hooked = self._at >= 0
        self._at, self._end = ask.at, ask.at + ask.steps
        if not hooked:
            runner = getattr(self.probe.host(Role.WORKER), "model_runner", None)
            v2 = getattr(runner, "cudagraph_manager", None) is not None
            seam, flag = ("step_dispatch_v2", "_graphs_captured") if v2 else ("step_dispatch", "keys_initialized")
            if not self.probe.hook(seam, self._eager(seam, flag)):
                self._at = self._end = -1
                return control.Refused(text=f"{seam} is not there: this build's replay cannot be switched off")
        return control.Done(text=f"steps {ask.at} to {self._end - 1} run without replay")

    def _eager(self, seam: str, flag: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """While a twin runs, dispatch finds no graph: both dispatchers answer mode NONE when ``flag`` is false."""
        on = self.probe.patches.switch(seam)

        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            def dispatch(owner: Any, *args: Any, **kwargs: Any) -> Any:
                if not on or not self._at <= NOW.step < self._end:
                    if NOW.stage is Stage.TWIN:
                        NOW.stage = Stage.EAGER
                    return original(owner, *args, **kwargs)
                NOW.stage = Stage.TWIN
                held = getattr(owner, flag)
                try:
                    setattr(owner, flag, False)
                    return original(owner, *args, **kwargs)
                finally:
                    setattr(owner, flag, held)

            return dispatch

        return make
