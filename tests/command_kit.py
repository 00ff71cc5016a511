"""The command line in this process: what a new one would cost is its start, 0.4 s, and nothing that such a test asserts.

Tests of the process itself (streams, signals, what is imported, exit by Python) start one: tests/test_cli.py.
"""

from __future__ import annotations

import io
import os
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from subprocess import CompletedProcess
from unittest import mock

from tree import ROOT

from m3probe.__main__ import main


def ran(*words: object, cwd: str | Path = ROOT.anchor, **env: str) -> CompletedProcess[str]:
    """``m3probe WORDS`` with no terminal: the exit status, stdout and stderr. The root is no folder to depend on."""
    command = ["m3probe", *map(str, words)]
    coding = env.get("PYTHONIOENCODING", "utf-8")  # as a new process would take it
    out, err = (io.TextIOWrapper(io.BytesIO(), coding, newline="\n", write_through=True) for _ in range(2))
    with (
        mock.patch("sys.argv", command),
        mock.patch.dict(os.environ, {"COLUMNS": "120", **env}),
        chdir(cwd),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        try:
            status = main()
        except SystemExit as ended:  # argparse
            status = int(ended.code or 0)
    said = [stream.buffer.getvalue().decode(coding) for stream in (out, err)]
    return CompletedProcess(command, status, *said)
