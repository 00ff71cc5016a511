"""Where a recording lies, and its ``manifest.json``."""

from __future__ import annotations

import os
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path

import msgspec

from m3probe import __version__
from m3probe.schema import secrets
from m3probe.schema.frames import MANIFEST
from m3probe.schema.manifest import Manifest
from m3probe.schema.records import FORMAT

ID = "M3PROBE_ID"
"""Set by the first process of a server, inherited by the others: they write one recording."""


def wanted(named: str | None) -> Path | None:
    """The folder that a variable names, absolute: children may stand elsewhere; None where it names none."""
    if not named or not named.strip():
        return None
    path = Path(named.strip())
    with suppress(RuntimeError):  # ~ of a user without home stays as it is
        path = path.expanduser()
    return path.absolute()


def default_folder() -> Path:
    """A name below the user's state folder, or below the temporary one where home is not writable; makes nothing."""
    import tempfile

    name = time.strftime("m3probe-%Y%m%dT%H%M%S") + f"-{os.getpid()}"
    state = wanted(os.environ.get("XDG_STATE_HOME")) or wanted("~/.local/state")
    if state is not None and state.is_absolute() and _can_make(state):
        return state / "m3probe" / name
    return Path(tempfile.gettempdir()) / name


def claim(folder: Path, own: str) -> str:
    """Make the folder and, where there is none, its manifest; the id of another recording that lies there already.

    Args:
        own: this recording's id; empty where ``m3probe attach`` made the folder.

    Raises:
        OSError: it cannot be made.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / MANIFEST
    manifest = Manifest(
        format=FORMAT,
        m3probe=__version__,
        id=own,
        started=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        host=socket.gethostname(),
        pid=os.getpid(),
        command=secrets.command(sys.orig_argv),
    )
    _write_first(path, msgspec.json.format(msgspec.json.encode(manifest)) + b"\n")
    try:
        there = msgspec.json.decode(path.read_bytes(), type=Manifest).id
    except (OSError, ValueError):
        return ""
    return there if own and there != own else ""


def _write_first(path: Path, data: bytes) -> None:
    """The whole file or none, and never over another process's."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    if path.exists():
        return
    try:
        part.write_bytes(data)
        with suppress(FileExistsError):
            os.link(part, path)
    except PermissionError:  # a filesystem without hard links
        part.rename(path)
    finally:
        part.unlink(missing_ok=True)


def _can_make(folder: Path) -> bool:
    """Whether it is writable, or could be made below the nearest folder that is there."""
    there = next((p for p in (folder, *folder.parents) if p.exists()), None)
    return there is not None and there.is_dir() and os.access(there, os.W_OK | os.X_OK)
