"""Hostile inputs without a large file: made of one gzip member repeated; and a child that runs m3probe on them in bounds."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import resource
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ADDRESS_SPACE = 3 * 2**30
_MEMBER = 8 * 2**20


@dataclass(frozen=True)
class Ran:
    """One run of the command: exit status, CPU seconds, MiB that it held at most beyond what it began with, output."""

    status: int
    cpu_s: float
    peak_mib: int
    out: str
    err: str


def bomb(path: Path, head: bytes, unit: bytes, size_bytes: int = 2 * 10**9) -> Path:
    """A gzip file of ``head`` and then ``unit`` again and again, ``size_bytes`` of it."""
    member = gzip.compress(unit * (_MEMBER // len(unit)), 6)
    with path.open("wb") as file:
        file.write(gzip.compress(head))
        for _ in range(size_bytes // _MEMBER):
            file.write(member)
    return path


def runs(commands: list[list[str]]) -> list[Ran]:
    """The commands, one after the other, in one child that may not have more than ``ADDRESS_SPACE``."""
    tests = str(Path(__file__).parent)
    env = os.environ | {"PYTHONPATH": os.pathsep.join([*sys.path, tests]), "OPENBLAS_NUM_THREADS": "1"}
    code = "import limits_kit; limits_kit.child()"
    said = json.dumps(commands)
    done = subprocess.run([sys.executable, "-P", "-c", code], input=said, capture_output=True, text=True, env=env, timeout=300, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return [Ran(**one) for one in json.loads(done.stdout)]


def child() -> None:
    """Runs the commands of standard input; writes what each did as JSON."""
    import numpy as np

    import m3probe.analyzers.trust
    import m3probe.pipeline

    assert np.ndarray and m3probe.pipeline.read  # imported before anything is measured
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    sys.stdout.write(json.dumps([_run(words) for words in json.load(sys.stdin)]))


def _run(words: list[str]) -> dict[str, Any]:
    from m3probe import cli

    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    before, start = _kib("VmRSS"), time.process_time()
    out, err = io.StringIO(), io.StringIO()
    sys.argv = ["m3probe", *words]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = cli.main()
        except SystemExit as error:
            status = int(error.code or 0)
    return {
        "status": status,
        "cpu_s": time.process_time() - start,
        "peak_mib": (_kib("VmHWM") - before) // 1024,
        "out": out.getvalue(),
        "err": err.getvalue(),
    }


def _kib(key: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(key))
