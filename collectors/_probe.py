"""The probe of one process: its roles, its level, its parts, and where their records go."""

from __future__ import annotations

import os
import threading
import time
import weakref
from pathlib import Path
from typing import Any

from m3probe.collectors import _process, _shelf
from m3probe.collectors._control import Control
from m3probe.collectors._part import Part
from m3probe.collectors._patch import Make, Patches
from m3probe.collectors._seams import Found, find
from m3probe.collectors._writer import Writer
from m3probe.schema import control, records
from m3probe.schema.frames import SUFFIX
from m3probe.schema.roles import Level, Role

MOST_LEDGER = 50_000
NEAREST = (Role.WORKER, Role.ENGINE, Role.API)


class Probe:
    """One per process; the methods called from hooks are ``put`` and ``ledger`` alone, and neither waits.

    Args:
        level: how much it does until somebody arms or disarms it.
        folder: the recording's folder where the environment names one.
    """

    def __init__(self, level: Level, folder: Path | None = None) -> None:
        self.level, self.folder = level, folder
        self.roles: list[Role] = []
        self.late = False
        self.patches = Patches()
        self.parts: list[tuple[str, Role, Part]] = []
        self.seams: dict[str, records.Seam] = {}
        self.step = 0
        """Steps that this process has executed since the probe counts them."""
        self.options = control.Arm(folder="", owner="")
        self.owner = ""
        self.recording = False
        self._hosts: dict[Role, weakref.ref[Any]] = {}
        self._settled: set[Role] = set()
        self._ledger: list[records.AnyRecord] = []
        self._ledger_lost = 0
        self._writer: Writer | None = None
        self._control: Control | None = None
        self._left: tuple[str, ...] = ()
        self._lock = threading.RLock()

    # -- what parts use ------------------------------------------------------------------------------------------

    def host(self, role: Role) -> Any:
        """The worker, the engine's scheduler or the API server's client; None when it is gone."""
        found = self._hosts.get(role)
        return found() if found is not None else None

    def ledger(self, record: records.AnyRecord) -> None:
        """A fact of load or capture: kept, and written when recording begins (or at once while it runs)."""
        if len(self._ledger) < MOST_LEDGER:
            self._ledger.append(record)
        else:
            self._ledger_lost += 1
        self.put(record)

    def put(self, record: records.AnyRecord) -> None:
        """A fact while recording; nowhere to go otherwise."""
        writer = self._writer
        if writer is not None:
            writer.put(record)

    def note(self, word: str, text: str, *, lossy: bool = False) -> None:
        """Tell the reader of the recording something, once."""
        record = records.Note(word=word, text=text, lossy=lossy, mono_ns=time.monotonic_ns())
        if not any(isinstance(r, records.Note) and (r.word, r.text) == (word, text) for r in self._ledger):
            self.ledger(record)

    def hook(self, seam: str, make: Make, owner: Any = None) -> bool:
        """Put a wrapper on a seam; an absent or changed one is told and left alone.

        Args:
            make: see ``_patch.around``.
            owner: an instance to wrap instead of the class (its own attribute; others of the class stay as they are).
        """
        found: Found = find(seam)
        hooked = False
        if found.owner is not None:
            for at in [owner] if owner is not None else [found.owner, *found.also]:
                hooked = self.patches.put(seam, at, found.name, make) is not None or hooked
        told = records.Seam(id=seam, state=found.state, hooked=hooked, text=found.text)
        if self.seams.get(seam) != told:
            self.seams[seam] = told
            self.ledger(told)
        return hooked

    # -- life ----------------------------------------------------------------------------------------------------

    def join(self, role: Role, host: Any) -> None:
        """This process is (also) ``role``; ``host``: the object that makes it so."""
        with self._lock:
            self._hosts[role] = weakref.ref(host)
            if role in self.roles:
                return
            self.roles.append(role)
            for name, part in _shelf.parts(role, self):
                self.parts.append((name, role, part))
            self._each(role, "loaded")
            if self._control is None:
                self._control = Control(self.answer)
                self._control.open()

    def settled(self, role: Role) -> None:
        """Caches are there, warm-up and capture are over: recording may begin."""
        with self._lock:
            if role in self._settled or role not in self.roles:
                return
            self._settled.add(role)
            self._each(role, "captured")
            if self.level is Level.ARMED and not self._writer:
                self._begin(self.folder)
            elif self.recording:
                self.put(self.process())
                self._each(role, "arm")

    def early(self, parts: list[tuple[str, Part]]) -> None:
        """Parts that must meet vLLM before it builds its model."""
        for name, part in parts:
            self._call(name, part, "early")

    def answer(self, ask: control.Ask) -> control.Answer:
        """One message of ``m3probe attach``."""
        if isinstance(ask, control.Hello):
            return self.status()
        if isinstance(ask, control.Arm):
            return self._arm(ask)
        if isinstance(ask, control.Disarm):
            self.disarm("detached")
            return self.status()
        for _name, _role, part in self.parts:
            carried = part.ask(ask)
            if carried is not None:
                return carried
        return control.Refused(text=f"nothing in this process ({', '.join(self.roles)}) can do that")

    def status(self) -> control.Status:
        """How this guest stands."""
        writer = self._writer
        return control.Status(
            pid=os.getpid(),
            role=self.role,
            level=Level.ARMED if self.recording else self.level,
            roles=tuple(self.roles),
            m3probe=_process.m3probe(),
            vllm=_process.vllm(),
            rank=_process.rank(self),
            step=self.step,
            captured=-1 if self.late else sum(isinstance(r, records.Descriptor) for r in self._ledger),
            late=self.late,
            folder=str(self._writer.path.parent) if writer else "",
            owner=self.owner,
            records=writer.records if writer else 0,
            bytes=writer.bytes if writer else 0,
            stopped=writer.stopped if writer else "",
            seams={seam.id: seam.state for seam in self.seams.values()},
            hooks=len(self.patches.standing),
            dropped=self._dropped(),
            failed_hooks=dict(self.patches.failed),
            left_behind=self._left,
        )

    def disarm(self, reason: str) -> None:
        """Stop recording, take every hook of recording off, close the file; the ledger stays."""
        with self._lock:
            if not self.recording:
                return
            self.recording = False
            self._left += self.patches.undo(lambda patch: patch.seam not in _shelf.LASTING)
            for role in self.roles:
                self._each(role, "disarm")
            writer, self._writer, self.owner = self._writer, None, ""
            if writer is not None:
                writer.close(lambda: self._end(reason))

    def leave(self) -> None:
        """Undo everything: hooks, socket. What is left afterwards is in ``status().left_behind``."""
        self.disarm("left")
        with self._lock:
            self._left += self.patches.undo()
            if self._control is not None:
                self._control.close()

    def forked(self) -> None:
        """In a forked child: threads, file, socket and roles are the parent's; inherited wrappers go on working."""
        if self._writer is not None:
            self._writer.abandon()
        if self._control is not None:
            self._control.abandon()
        fresh = Probe(self.level, self.folder)
        fresh.patches.standing = self.patches.standing
        self.__dict__.update(fresh.__dict__)

    # -- inside --------------------------------------------------------------------------------------------------

    @property
    def role(self) -> Role:
        """Of this process's roles the one nearest to the device."""
        return next((role for role in NEAREST if role in self.roles), Role.UNKNOWN)

    def process(self) -> records.Process:
        """Who writes."""
        return _process.process(self)

    def _arm(self, ask: control.Arm) -> control.Answer:
        with self._lock:
            if self.recording:
                text = f"already recording into {self._writer.path.parent if self._writer else '?'} for {self.owner}"
                return control.Refused(text=text, next_move="Stop that one first, or read its folder")
            if not self.roles:
                return control.Refused(
                    text="this process has no part in serving yet", next_move="Try again when it is up"
                )
            self.options, self.owner = ask, ask.owner
            why = self._begin(Path(ask.folder))
            return (
                control.Refused(text=why, next_move="Name a folder that the server can write to")
                if why
                else self.status()
            )

    def _begin(self, folder: Path | None) -> str:
        """Open the file and arm the parts; why not, where that fails."""
        folder = folder or default_folder()
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            path = folder / f"{self.role}-{_process.rank(self)}-{os.getpid()}-{time.time_ns() // 1_000_000}{SUFFIX}"
            writer = Writer(path, self._tick)
        except OSError as error:
            self.note("no_recording", f"cannot record into {folder}: {error.strerror or error}", lossy=True)
            return f"cannot record into {folder}: {error.strerror or error}"
        self._writer, self.folder, self.recording = writer, folder, True
        writer.put(self.process())
        for record in list(self._ledger):
            writer.put(record)
        for role in self.roles:
            if role in self._settled:
                self._each(role, "arm")
        writer.start()
        return ""

    def _tick(self) -> None:
        for name, _role, part in list(self.parts):
            self._call(name, part, "tick")

    def _each(self, role: Role, method: str) -> None:
        for name, of, part in self.parts:
            if of is role:
                self._call(name, part, method)

    def _call(self, name: str, part: Part, method: str) -> None:
        try:
            getattr(part, method)()
        except Exception as error:  # noqa: BLE001 - one part's fault takes neither the others nor vLLM with it
            self.patches.failed[f"{name}.{method}"] += 1
            self.note("part_failed", f"{name}.{method}: {type(error).__name__}: {error}", lossy=True)

    def _dropped(self) -> dict[str, int]:
        lost = dict(self._writer.dropped) if self._writer else {}
        return lost | ({"ledger": self._ledger_lost} if self._ledger_lost else {})

    def _end(self, reason: str) -> records.End:
        return records.End(
            mono_ns=time.monotonic_ns(),
            reason=reason,
            dropped=self._dropped(),
            failed_hooks=dict(self.patches.failed),
            left_behind=self._left,
        )


def default_folder() -> Path:
    """A new folder below the user's state folder; below the temporary one where home is not writable."""
    import tempfile

    name = time.strftime("m3probe-%Y%m%dT%H%M%S") + f"-{os.getpid()}"
    state = Path(os.environ.get("XDG_STATE_HOME") or Path("~/.local/state").expanduser())
    parent = state / "m3probe"
    try:
        parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if os.access(parent, os.W_OK):
            return parent / name
    except OSError:
        pass
    return Path(tempfile.gettempdir()) / name
