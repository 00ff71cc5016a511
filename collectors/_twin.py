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
V1, V2 = ("twin_dispatch", "keys_initialized"), ("twin_dispatch_v2", "_graphs_captured")
"""The dispatcher of each runner, and its own flag without which it answers mode NONE (0.24.0 to 0.33.0)."""


class Twins:
    """One planned twin at a time; its hook comes off with the recording's."""

    def __init__(self, probe: Probe) -> None:
        self.probe = probe
        self._at = self._end = 0
        self._hooked = False

    def runs(self, step: int) -> bool:
        """Whether this step runs without replay."""
        return self._at <= step < self._end

    def plan(self, ask: control.Twin) -> control.Answer:
        """Run steps ``at`` to ``at + steps`` without replay; 0 steps take back what has not begun."""
        if ask.steps == 0 and self.probe.step < self._at:
            self._at = self._end = 0
            return control.Done(text="taken back")
        if not 0 < ask.steps <= MOST_STEPS:
            return control.Refused(text=f"{ask.steps} steps: a twin has 1 to {MOST_STEPS}")
        if ask.at <= self.probe.step:
            text = f"step {ask.at} is over here (now {self.probe.step})"
            return control.Refused(text=text, next_move="Ask for a later step")
        runner = getattr(self.probe.host(Role.WORKER), "model_runner", None)
        if not self._hooked:
            seam, flag = V2 if getattr(runner, "cudagraph_manager", None) is not None else V1
            self._hooked = self.probe.hook(seam, self._eager(seam, flag))
            if not self._hooked:
                return control.Refused(text=f"{seam} is not there: this build's replay cannot be switched off")
        self._at, self._end = ask.at, ask.at + ask.steps
        hidden = "; code that vLLM compiled stays compiled, and hides its branches" if _compiled(runner) else ""
        return control.Done(text=f"steps {ask.at} to {self._end - 1} run without replay{hidden}")

    def _eager(self, seam: str, flag: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """While a twin runs, dispatch finds no graph, a draft model's neither."""
        on = self.probe.patches.switch(seam)

        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            def dispatch(owner: Any, *args: Any, **kwargs: Any) -> Any:
                if not on or NOW.stage is not Stage.TWIN or not hasattr(owner, flag):
                    return original(owner, *args, **kwargs)
                held = getattr(owner, flag)
                try:
                    setattr(owner, flag, False)
                    return original(owner, *args, **kwargs)
                finally:
                    setattr(owner, flag, held)

            return dispatch

        return make


def _compiled(runner: Any) -> bool:
    """Whether vLLM compiles the model: ``CompilationConfig.mode`` is an int from 0 (none)."""
    config = getattr(getattr(runner, "vllm_config", None), "compilation_config", None)
    mode = getattr(config, "mode", None)
    return bool(getattr(mode, "value", mode) or 0)
