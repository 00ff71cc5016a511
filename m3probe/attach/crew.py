"""The processes of one server and the guests in them: greeted, armed, watched, disarmed; each speaks for itself alone."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from m3probe.attach import guests, servers
from m3probe.attach import inject as injection
from m3probe.attach import proc as processes
from m3probe.attach.advice import Situation, advice
from m3probe.attach.servers import Member, Server
from m3probe.errors import UnreadableInput
from m3probe.schema.control import Answer, Arm, Ask, Disarm, Refused, Status
from m3probe.schema.roles import Level, Role

POLL_WAIT_S = 3.0
_OWNER_PID = re.compile(r"\bpid (\d+)\b")


@dataclass(slots=True)
class Guest:
    """One process of the server and what is known of its guest. ``state``: as in ``ProcessReport``."""

    member: Member
    path: Path
    state: str = "no guest"
    text: str = ""
    status: Status | None = None
    injected: bool = False
    hooks_before: int = -1
    hooks_armed: int = -1
    hooks_after: int = -1
    first_step: int = -1
    env: dict[str, str] | None = None
    rates: list[tuple[float, int]] = field(default_factory=list)
    """(seconds, step) of the last looks."""

    @property
    def pid(self) -> int:
        """Its number here."""
        return self.member.pid

    @property
    def role(self) -> Role:
        """As the guest says, else as the command line does."""
        return self.status.role if self.status and self.status.role is not Role.UNKNOWN else self.member.role

    @property
    def roles(self) -> tuple[Role, ...]:
        """All parts that this process plays."""
        return self.status.roles if self.status else (self.member.role,)

    @property
    def name(self) -> str:
        """``worker 0 (pid 4711)``."""
        rank = f" {self.status.rank}" if self.status and self.status.rank >= 0 else ""
        return f"{self.role}{rank} (pid {self.pid})"

    @property
    def steps(self) -> int:
        """Steps since arming; -1 where it counts none."""
        return self.status.step - self.first_step if self.status and self.first_step >= 0 else -1

    @property
    def late(self) -> bool | None:
        """Whether it came after graph capture; None without an answer."""
        return None if self.status is None else self.status.late or self.status.captured < 0


class Crew:
    """All processes of one server."""

    def __init__(self, server: Server, proc: Path = processes.PROC) -> None:
        self.server, self.proc = server, proc
        self.all = [Guest(m, servers.socket_of(m.process, server.root, proc)) for m in server.members]

    def with_state(self, *states: str) -> list[Guest]:
        """Those in one of these states."""
        return [guest for guest in self.all if guest.state in states]

    def workers(self) -> list[Guest]:
        """Those recorded that run the model."""
        return [guest for guest in self.with_state("recorded", "dormant") if Role.WORKER in guest.roles]

    def greet(self) -> None:
        """Find out which processes have a guest."""
        _each(self.all, self._greet)

    def inject(self, say: Callable[[str], None]) -> None:
        """Put a guest into every process that has none; one after the other, as each is stopped for a moment."""
        for guest in self.with_state("no guest"):
            why = injection.refusal(guest.pid, self.proc)
            if why:
                guest.text = why
                continue
            say(f"injecting into {guest.name}")
            try:
                guest.status = injection.inject(guest.pid, guest.path)
            except guests.Unreached as error:
                guest.text = f"not injected: {error}"
                continue
            guest.state, guest.injected, guest.text = "dormant", True, ""
            guest.hooks_before = guest.status.hooks

    def check_free(self, *, take_over: bool) -> None:
        """Refuse while another one records.

        Raises:
            UnreadableInput: with the name of the one who came first.
        """
        for guest in self.with_state("dormant"):
            status = guest.status
            if status is None or status.level is not Level.ARMED:
                continue
            if take_over:
                guest.status = _status(guests.ask(guest.pid, guest.path, Disarm(owner=status.owner)))
                guest.hooks_before = guest.status.hooks if guest.status else -1
                continue
            raise UnreadableInput(
                f"already recording into {status.folder} for {status.owner}",
                where=guest.name,
                next_move=_about_the_first(status.owner),
            )

    def arm(self, folder: Path, **options: float) -> None:
        """Arm every guest; one that will not, or is gone, is named, and the others go on."""
        message = Arm(folder=str(folder), owner=owner(), **options)  # type: ignore[arg-type]
        _each(self.with_state("dormant"), lambda guest: self._arm(guest, message))

    def poll(self) -> None:
        """Ask those who record how they stand; who has ended is ``lost``."""
        _each(self.with_state("recorded"), self._poll)

    def disarm(self) -> None:
        """Stop recording everywhere; every guest says what it gave back."""
        _each(self.with_state("recorded"), self._disarm)
        for guest in self.with_state("lost"):  # a guest leaves in order a moment before its process ends
            if not processes.alive(guest.pid, self.proc):
                self._gone(guest, "lost")

    def without(self) -> str:
        """Why nobody here has a guest: each reason once, with the processes that it is about."""
        reasons: dict[str, list[str]] = {}
        for guest in self.all:
            reasons.setdefault(guest.text, []).append(guest.name)
        return "; ".join(f"{', '.join(names)}: {why}" for why, names in reasons.items())

    def tell(self, guest: Guest, message: Ask) -> Answer:
        """One message to one guest; who cannot be reached refuses."""
        try:
            return guests.ask(guest.pid, guest.path, message)
        except guests.Unreached as error:
            return Refused(text=str(error))

    def _greet(self, guest: Guest) -> None:
        if guest.member.process.zombie:
            guest.state, guest.text = "zombie", advice(Situation("any", worker_state="Z"))
            return
        if not processes.alive(guest.pid, self.proc):
            self._gone(guest, "gone")
            return
        try:
            guest.status = guests.status(guest.pid, guest.path)
        except guests.Unreached as error:
            guest.text = f"no guest in it ({error})"
            if not processes.alive(guest.pid, self.proc):
                self._gone(guest, "gone")
            return
        guest.state, guest.hooks_before = "dormant", guest.status.hooks

    def _arm(self, guest: Guest, message: Arm) -> None:
        try:
            said = guests.ask(guest.pid, guest.path, message)
        except guests.Unreached as error:
            if processes.alive(guest.pid, self.proc):
                guest.state, guest.text = "refused", str(error)
            else:
                self._gone(guest, "gone")
            return
        if not isinstance(said, Status):
            guest.state, guest.text = "refused", f"{said.text}. {getattr(said, 'next_move', '')}".strip()
            return
        guest.status, guest.state = said, "recorded"
        guest.first_step, guest.hooks_armed = said.step, said.hooks

    def _poll(self, guest: Guest) -> None:
        try:
            guest.status = guests.status(guest.pid, guest.path, POLL_WAIT_S)
        except guests.Unreached as error:
            if not processes.alive(guest.pid, self.proc):
                self._gone(guest, "lost")
            elif error.gone:
                guest.state, guest.text = "lost", "its guest has left, the process is still there"
            return
        guest.hooks_armed = max(guest.hooks_armed, guest.status.hooks)
        if guest.status.stopped and guest.status.level is not Level.ARMED:
            guest.state, guest.text = "lost", f"recording stopped by itself: {guest.status.stopped}"

    def _disarm(self, guest: Guest) -> None:
        try:
            said = guests.ask(guest.pid, guest.path, Disarm(owner=owner()))
        except guests.Unreached as error:
            if not processes.alive(guest.pid, self.proc):
                self._gone(guest, "lost")
            else:
                guest.text = f"not disarmed: {error}"
            return
        guest.status = _status(said) or guest.status
        guest.hooks_after = guest.status.hooks if guest.status else -1

    def _gone(self, guest: Guest, state: str) -> None:
        guest.state = state
        guest.text = (
            advice(Situation("any", target="gone between list and attach"))
            if state == "gone"
            else "the process has ended; what it had written is kept, at most its last second is lost"
        )
        guests.remove_stale(guest.path, guest.pid, self.proc)


def owner() -> str:
    """How this ``attach`` names itself to guests."""
    return f"m3probe attach, pid {os.getpid()}"


def _about_the_first(named: str) -> str:
    found = _OWNER_PID.search(named)
    if found and not processes.alive(int(found[1])):
        return "That one has ended without stopping it: --take-over ends its recording and begins a new one"
    return "Stop that one first, or read its folder; --take-over ends its recording"


def _status(said: Answer) -> Status | None:
    return said if isinstance(said, Status) else None


def _each(these: Iterable[Guest], do: Callable[[Guest], None]) -> None:
    """All at once: one that answers late holds no other up."""
    listed = list(these)
    if listed:
        with ThreadPoolExecutor(max_workers=min(len(listed), 32)) as pool:
            list(pool.map(do, listed))
