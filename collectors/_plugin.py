"""The entry points: ``vllm.general_plugins`` (every process of a server), and ``inject`` for one that runs already."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

LEVEL = "M3PROBE"
FOLDER = "M3PROBE_DIR"

_probe: Any = None


def register() -> None:
    """Called by vLLM in each process before it builds anything. Never raises; imports nothing of vLLM."""
    try:
        _register()
    except Exception as error:  # noqa: BLE001 - an error here would end vLLM's process
        print(f"m3probe: not started: {type(error).__name__}: {error}", file=sys.stderr)  # noqa: T201


def probe() -> Any:
    """This process's probe; None at ``M3PROBE=0``."""
    return _probe


def _register() -> None:
    global _probe
    from m3probe.schema.roles import Level

    level = {"0": Level.OFF, "1": Level.ARMED}.get(os.environ.get(LEVEL, "").strip(), Level.LEDGER)
    if level is Level.OFF or _probe is not None:
        return
    from m3probe.collectors._probe import Probe
    from m3probe.collectors._start import watch

    if level is Level.ARMED and FOLDER not in os.environ:
        from m3probe.collectors._probe import default_folder

        os.environ[FOLDER] = str(default_folder())  # children inherit it: one recording for all processes
    named = os.environ.get(FOLDER)
    _probe = Probe(level, Path(named) if named else None)
    os.register_at_fork(after_in_child=_probe.forked)
    watch(_probe)


def inject() -> None:
    """Called in a process that serves already, with m3probe's folder on ``sys.path``; then its socket answers.

    Never raises: the thread that runs it is vLLM's own.
    """
    global _probe
    try:
        from m3probe.collectors._probe import Probe
        from m3probe.collectors._start import found_late
        from m3probe.schema.roles import Level

        if _probe is None:
            _probe = Probe(Level.LEDGER)
            os.register_at_fork(after_in_child=_probe.forked)
        found_late(_probe)
    except Exception as error:  # noqa: BLE001 - see above
        print(f"m3probe: not injected: {type(error).__name__}: {error}", file=sys.stderr)  # noqa: T201
