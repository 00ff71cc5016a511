"""Puts m3probe into a process that serves already and was started without it: hypno (ptrace), on request, never gdb.

gdb's calls into a process broke vLLM on a machine with AMX (``Couldn't write extended state status``, then errno 514
from the system call that it slept in): hypno writes no extended state and did not. The code runs in the thread that
ptrace stopped; where that thread holds the allocator's lock it hangs, so this is for servers that may be restarted.
"""

from __future__ import annotations

import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import m3probe
from m3probe.attach import guests
from m3probe.attach import proc as processes
from m3probe.attach.advice import PLUGIN, Situation, advice
from m3probe.attach.ptrace import ADVICE, refusal_of
from m3probe.errors import UsageError
from m3probe.schema.control import Status

WAIT_S = 60.0
"""For the code to get the interpreter lock and to return; the modules of the collectors are small."""
ANSWER_S = 20.0

# The package alone is made known, not the folder around it: its neighbours there (this environment's numpy) stay unseen.
_CODE = """
def _m3probe_in():
    import importlib.util, sys
    if "m3probe" not in sys.modules:
        spec = importlib.util.spec_from_file_location("m3probe", {init!r}, submodule_search_locations=[{folder!r}])
        sys.modules["m3probe"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules["m3probe"])
    from m3probe.collectors._plugin import inject
    inject()
try:
    _m3probe_in()
except BaseException as error:
    import sys
    print("m3probe: not injected:", type(error).__name__, error, file=sys.stderr)
finally:
    del _m3probe_in
"""
_RUN = "import sys, hypno; hypno.inject_py(int(sys.argv[1]), sys.stdin.read())"


def code() -> str:
    """What runs in the server's process."""
    init = Path(m3probe.__file__).absolute()
    return _CODE.format(init=str(init), folder=str(init.parent))


def check_tool() -> None:
    """Say at once where the tool for it is missing.

    Raises:
        UsageError: hypno is not installed beside m3probe.
    """
    if find_spec("hypno") is None:
        raise UsageError(
            "--inject needs hypno", next_move=f"pip install 'm3probe[inject]' where m3probe runs; or {PLUGIN}"
        )


def refusal(pid: int, proc: Path = processes.PROC) -> str:
    """Why this process may not be traced from here, and what to do; empty where it may."""
    why = refusal_of(pid, proc)
    return f"{advice(Situation('hypno', ptrace=False))} ({why}). {ADVICE}" if why else ""


def inject(pid: int, path: Path) -> Status:
    """Inject into one process and wait until the guest there answers: nothing else counts as being in.

    Raises:
        guests.Unreached: it did not get in, or does not answer.
    """
    command = [sys.executable, "-c", _RUN, str(pid)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as tool:
        try:
            _, said = tool.communicate(code(), timeout=WAIT_S)
        except subprocess.TimeoutExpired:
            why = f"the injected code has not come back within {WAIT_S:.0f} s; its tracer is pid {tool.pid}"
            tool.stdin = tool.stdout = tool.stderr = None
            tool.returncode = -1  # left alone: to kill a tracer in the middle would kill the server
            raise guests.Unreached(why) from None
    if tool.returncode:
        raise guests.Unreached(f"hypno: {(said.strip().splitlines() or ['no reason given'])[-1][:300]}")
    return _answers(pid, path)


def _answers(pid: int, path: Path) -> Status:
    until = time.monotonic() + ANSWER_S
    while True:
        try:
            return guests.status(pid, path)
        except guests.Unreached:
            if time.monotonic() >= until or not processes.alive(pid):
                raise
        time.sleep(0.1)
