"""The entry points: ``vllm.general_plugins`` (every process of a server), and ``inject`` for one that runs already."""

from __future__ import annotations

import os
import sys
from typing import Any

LEVEL = "M3PROBE"
FOLDER = "M3PROBE_DIR"

_probes: list[Any] = []
"""None or one: a process has one probe."""


def register() -> None:
    """Called by vLLM in each process before it builds anything. Never raises; imports nothing of vLLM."""
    try:
        _register()
    except Exception as error:  # noqa: BLE001 - an error here would end vLLM's process
        _say(f"not started: {type(error).__name__}: {error}")


def probe() -> Any:
    """This process's probe; None at ``M3PROBE=0``."""
    return _probes[0] if _probes else None


def inject() -> None:
    """Called in a process that serves already, with m3probe's folder on ``sys.path``; then its socket answers.

    Never raises and returns at once: the thread that runs it is vLLM's own, stopped wherever it was. The work is done in a
    thread of ours.
    """
    import threading

    try:
        threading.Thread(target=_inject, name="m3probe-inject", daemon=True).start()
    except Exception as error:  # noqa: BLE001 - see above
        _say(f"not injected: {type(error).__name__}: {error}")


def _register() -> None:
    from m3probe.schema.roles import Level

    asked = os.environ.get(LEVEL, "").strip()
    level = {"": Level.LEDGER, "0": Level.OFF, "1": Level.ARMED}.get(asked)
    if level is None:
        _say(f"not started: {LEVEL}={asked!r} is neither 0 nor 1")
    if level in {None, Level.OFF} or _probes:
        return
    from m3probe.collectors._folder import ID, default_folder, wanted

    folder = wanted(os.environ.get(FOLDER))
    if level is Level.ARMED:
        folder = folder or default_folder()
        # children inherit both: one recording for all processes, wherever they stand
        os.environ[FOLDER] = str(folder)
        os.environ.setdefault(ID, f"{os.getpid()}-{os.urandom(4).hex()}")
    _make(level, folder)


def _inject() -> None:
    try:
        from m3probe.collectors._start import found_late
        from m3probe.schema.roles import Level

        if not _probes:
            _make(Level.LEDGER, None, late=True)
        if not _probes[0].roles:
            found_late(_probes[0])
    except Exception as error:  # noqa: BLE001 - it ends our thread alone
        _say(f"not injected: {type(error).__name__}: {error}")


def _make(level: Any, folder: Any, *, late: bool = False) -> None:
    from m3probe.collectors._probe import Probe
    from m3probe.collectors._start import watch

    made = Probe(level, folder)
    os.register_at_fork(after_in_child=made.forked)
    if not late:
        watch(made)
    _probes.append(made)


def _say(text: str) -> None:
    print(f"m3probe: {text}", file=sys.stderr)  # noqa: T201 - a guest without a recording has no other voice
