"""The probe of one process: its roles, its level, its parts, and where their records go."""

from __future__ import annotations

import os
import threading
import time
import weakref
from pathlib import Path
from typing import Any, TypeVar

from m3probe.collectors import _exit, _process, _shelf
from m3probe.collectors._control import Control
from m3probe.collectors._folder import ID, claim, default_folder
from m3probe.collectors._imports import Watch
from m3probe.collectors._ledger import Ledger
from m3probe.collectors._part import Part
from m3probe.collectors._patch import Make, Patch, Patches, in_words
from m3probe.collectors._seams import SEAMS, Found, find
from m3probe.collectors._writer import PATIENCE_S, Writer
from m3probe.schema import control, records
from m3probe.schema.frames import SUFFIX
from m3probe.schema.roles import Level, Role

NEAREST = (Role.WORKER, Role.ENGINE, Role.API)
R = TypeVar("R", bound=records.Record)


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
        self.watch = Watch(lambda module, error: self.patches.fault(f"import of {module}", error))
        self._hosts: dict[Role, weakref.ref[Any]] = {}
        self._begun: set[Role] = set()
        self._settled: set[Role] = set()
        self._ledger = Ledger()
        self._awaited: set[str] = set()
        self._writer: Writer | None = None
        self._last: Writer | None = None
        self._why = ""
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
        self._ledger.keep(record)
        self.put(record)

    def told(self, kind: type[R]) -> list[R]:
        """Facts of one kind that are in the ledger."""
        return [record for record in self._ledger.all() if isinstance(record, kind)]

    def put(self, record: records.AnyRecord) -> None:
        """A fact while recording; nowhere to go otherwise."""
        writer = self._writer
        if writer is not None:
            writer.put(record)

    def note(self, word: str, text: str, *, lossy: bool = False, about: str = "") -> None:
        """Tell the reader of the recording something, once; ``about``: what makes it the same where its text varies."""
        made = self._ledger.note(word, text, lossy=lossy, about=about)
        if made is not None:
            self.ledger(made)

    def hook(self, seam: str, make: Make, owner: Any = None) -> bool:
        """Put a wrapper on a seam; an absent or changed one is told and left alone.

        Args:
            make: see ``_patch.around``.
            owner: an instance to wrap instead of the class (its own attribute; others of the class stay as they are).
        """
        found: Found = find(seam)
        hooked = False
        if found.owner is not None:
            copies = SEAMS[seam].also
            for at in [owner] if owner is not None else [found.owner, *found.also]:
                hooked = self.patches.put(seam, at, found.name, make, copies) is not None or hooked
        told = records.Seam(id=seam, state=found.state, hooked=hooked, text=found.text)
        if self.seams.get(seam) != told:
            self.seams[seam] = told
            self.ledger(told)
        return hooked

    def hook_when_loaded(self, seam: str, make: Make) -> None:
        """``hook`` now, or when vLLM imports the seam's module; nothing any more once capture or recording is over."""
        self._awaited.add(seam)

        def then(_module: Any) -> None:
            if seam in self._awaited:
                self._awaited.discard(seam)
                self.hook(seam, make)

        self.watch.when(SEAMS[seam].module, then)

    def unhook(self, *seams: str) -> None:
        """Take hooks off, as ``disarm`` does for all."""
        self._awaited.difference_update(seams)
        self._left += self.patches.undo(lambda patch: patch.seam in seams)

    # -- life ----------------------------------------------------------------------------------------------------

    def begin(self, role: Role, host: Any) -> None:
        """This process is (also) ``role``, and what ``host`` builds next may be watched: ``early`` of its parts."""
        with self._lock:
            self._hosts[role] = weakref.ref(host)
            if role in self._begun:
                return
            self._begun.add(role)
            self.parts += [(name, role, part) for name, part in _shelf.parts(role, self)]
            self._each(role, "early")

    def join(self, role: Role, host: Any) -> None:
        """``host`` is there: the worker has its model, the engine its scheduler, the API server its client."""
        with self._lock:
            first = self.host(role)
            if role in self.roles and first is not None and first is not host:
                self.note(
                    "second_host", f"this process has another {role} now; the first one's facts stand", lossy=True
                )
                return
            self.begin(role, host)
            if role in self.roles:
                return
            self.roles.append(role)
            self._each(role, "loaded")
            self.listen()

    def listen(self) -> None:
        """Open the control socket, and close the file in order when the process ends."""
        if self._control is None:
            self._control = Control(self.answer)
            self._control.open()
            if self._control.why_not:
                self.note("no_socket", f"m3probe attach cannot reach this process: {self._control.why_not}")
            _exit.at_exit(self.leave)

    def settled(self, role: Role) -> None:
        """Caches are there, warm-up and capture are over: recording may begin."""
        with self._lock:
            if role in self._settled or role not in self.roles:
                return
            self._settled.add(role)
            self._each(role, "captured")
            self._awaited.clear()
            if self.recording:
                self.put(self.process())
                self._each(role, "arm")
            elif self.level is Level.ARMED and self._last is None:
                self._why = self._record(self.folder)

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
        """How this guest stands; counts are those of the last recording where none runs."""
        writer = self._writer or self._last
        return control.Status(
            pid=os.getpid(),
            role=self.role,
            level=Level.ARMED if self.recording else min(self.level, Level.LEDGER),
            roles=tuple(self.roles),
            m3probe=_process.m3probe(),
            vllm=_process.vllm(),
            rank=_process.rank(self),
            step=self.step,
            captured=-1 if self.late else self._ledger.captured,
            late=self.late,
            folder=str(writer.path.parent) if writer and self.recording else "",
            owner=self.owner,
            records=writer.records if writer else 0,
            bytes=writer.bytes if writer else 0,
            stopped=writer.stopped if writer else self._why,
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
            self._awaited.clear()
            self._left += self.patches.undo(lambda patch: not _lasting(patch))
            writer = self._writer
            if writer is not None:
                writer.flush()  # counts of the last second, before parts forget them
            for role in self.roles:
                self._each(role, "disarm")
            if writer is not None:
                writer.close(lambda: self._end(reason))
            self._last, self._writer, self.owner = writer, None, ""

    def leave(self, reason: str = "exit") -> None:
        """Undo everything: hooks, socket, file. Also at the end of the process, which it never holds up for long."""
        if not self._lock.acquire(timeout=PATIENCE_S):
            return
        try:
            self.disarm(reason)
            self.watch.remove()
            self._left += self.patches.undo()
            control_, self._control = self._control, None
            if control_ is not None:
                control_.close()
        finally:
            self._lock.release()

    def forked(self) -> None:
        """In a forked child: threads, file, socket and roles are the parent's; hooks of start-up go on working."""
        if self._writer is not None:
            self._writer.abandon()
        if self._control is not None:
            self._control.abandon()
        patches, watch = self.patches, self.watch
        patches.forked(_lasting)
        self.__dict__.update(Probe(self.level, self.folder).__dict__)
        self.patches, self.watch = patches, watch

    # -- inside --------------------------------------------------------------------------------------------------

    @property
    def role(self) -> Role:
        """Of this process's roles the one nearest to the device."""
        return next((role for role in NEAREST if role in self.roles), Role.UNKNOWN)

    def process(self) -> records.Process:
        """Who writes."""
        return _process.process(self)

    def _arm(self, ask: control.Arm) -> control.Answer:
        if not Path(ask.folder).is_absolute():
            return control.Refused(text=f"{ask.folder!r} is no absolute path", next_move="Name the folder from /")
        with self._lock:
            if self.recording:
                text = f"already recording into {self._writer.path.parent if self._writer else '?'} for {self.owner}"
                return control.Refused(text=text, next_move="Stop that one first, or read its folder")
            if not self.roles:
                text = "this process has no part in serving yet"
                return control.Refused(text=text, next_move="Try again when it is up")
            self.options, self.owner = ask, ask.owner
            why = self._record(Path(ask.folder))
            if not why:
                return self.status()
            self.options, self.owner = control.Arm(folder="", owner=""), ""
            return control.Refused(text=why, next_move="Name a folder that the server can write to")

    def _record(self, folder: Path | None) -> str:
        """Open the file and arm the parts; why not, where that fails."""
        folder = folder or default_folder()
        try:
            other = claim(folder, "" if self.owner else os.environ.get(ID, ""))
            writer = Writer(folder / self._name(), self._tick, stopped=lambda why: self.disarm(f"stopped: {why}"))
        except (OSError, ValueError) as error:
            return self._not_recorded(folder, getattr(error, "strerror", None) or str(error))
        self._writer, self.folder, self.recording = writer, folder, True
        self.owner = self.owner or "M3PROBE=1"
        writer.put(self.process())
        for record in self._ledger.all():
            writer.put(record)
        if other:
            self.note("shared_folder", f"{folder} also holds the recording {other} of another start")
        for role in self.roles:
            if role in self._settled:
                self._each(role, "arm")
        try:
            writer.start()
        except RuntimeError as error:
            self.disarm("no thread")
            return self._not_recorded(folder, str(error))
        return ""

    def _name(self) -> str:
        rank = _process.rank(self)
        who = f"{self.role}-{rank}" if rank >= 0 else str(self.role)
        return f"{who}-{os.getpid()}-{time.time_ns() // 1_000_000}{SUFFIX}"

    def _not_recorded(self, folder: Path, why: str) -> str:
        text = f"cannot record into {folder}: {why}"
        self.note("no_recording", text, lossy=True)
        return text

    def _tick(self) -> None:
        for name, _role, part in list(self.parts):
            self._call(name, part, "tick")
        for seam, text in list(self.patches.said.items()):
            self.note("hook_failed", f"{seam}: {text}", lossy=True, about=seam)

    def _each(self, role: Role, method: str) -> None:
        for name, of, part in self.parts:
            if of is role:
                self._call(name, part, method)

    def _call(self, name: str, part: Part, method: str) -> None:
        try:
            getattr(part, method)()
        except Exception as error:  # noqa: BLE001 - one part's fault takes neither the others nor vLLM with it
            at = f"{name}.{method}"
            self.patches.failed[at] += 1
            self.note("part_failed", f"{at}: {in_words(error)}", lossy=True, about=at)

    def _dropped(self) -> dict[str, int]:
        writer = self._writer or self._last
        lost = dict(writer.dropped) if writer else {}
        return lost | ({"ledger": self._ledger.lost} if self._ledger.lost else {})

    def _end(self, reason: str) -> records.End:
        return records.End(
            mono_ns=time.monotonic_ns(),
            reason=reason,
            dropped=self._dropped(),
            failed_hooks=dict(self.patches.failed),
            left_behind=self._left,
        )


def _lasting(patch: Patch) -> bool:
    return patch.seam in _shelf.LASTING
