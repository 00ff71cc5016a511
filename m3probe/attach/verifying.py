"""``verify``: every worker recomputes one module in float32 at its next eager step, and says how far it is off."""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from m3probe.attach import proc as processes
from m3probe.attach import servers
from m3probe.attach.asked import Asked, Told
from m3probe.attach.crew import Crew, Guest
from m3probe.attach.recording import Tail, new_folder, write_manifest
from m3probe.attach.session import interruptible, uninterrupted
from m3probe.attach.within import check_within
from m3probe.errors import UnreadableInput
from m3probe.model.attach_report import VerifiedRank, VerifyReport
from m3probe.schema.control import Done, Verify
from m3probe.schema.records import Verified

WAIT_S = 60.0
CANNOT = "cannot verify"


@dataclass(frozen=True, slots=True)
class AskedVerify:
    """The command line of ``verify``; ``out``: keep the recording there, else it is thrown away."""

    module: str
    target: str = servers.AUTO
    out: Path | None = None
    wait_s: float = WAIT_S
    take_over: bool = False
    proc: Path = processes.PROC


def verify(asked: AskedVerify, told: Told) -> VerifyReport:
    """Ask every worker of one server.

    Raises:
        UnreadableInput: there is no server, or no worker of it has a guest.
    """
    server = servers.find(asked.target, asked.proc)
    check_within(server, Asked(asked.target, proc=asked.proc))
    crew = Crew(server, asked.proc)
    crew.greet()
    crew.check_free(take_over=asked.take_over)
    if not crew.workers():
        raise UnreadableInput(f"no worker has a guest ({crew.without()})", where=f"pid {server.root.pid}")
    if asked.out is not None:
        return _in_folder(crew, asked, new_folder(asked.out), told)
    with tempfile.TemporaryDirectory(prefix="m3probe-verify-") as folder:
        return _in_folder(crew, asked, new_folder(Path(folder)), told)


def _in_folder(crew: Crew, asked: AskedVerify, folder: Path, told: Told) -> VerifyReport:
    workers = crew.workers()
    write_manifest(folder)
    found: dict[int, VerifiedRank] = {}
    with interruptible():
        try:
            crew.arm(folder)
            waited = [guest for guest in workers if guest.state == "recorded"]
            for guest in workers:
                why = guest.text if guest.state != "recorded" else _refusal(crew, guest, asked.module)
                if why:
                    found[guest.pid] = _cannot(guest, why)
            if any(guest.pid not in found for guest in waited):
                told.say(f"waiting up to {asked.wait_s:.0f} s for a step without replay: send a request meanwhile")
            _wait(crew, waited, found, Tail(folder), asked)
        finally:
            with uninterrupted():
                crew.disarm()
    return VerifyReport(asked.module, tuple(found[guest.pid] for guest in workers))


def _refusal(crew: Crew, guest: Guest, module: str) -> str:
    said = crew.tell(guest, Verify(module=module))
    if isinstance(said, Done):
        return ""
    move = getattr(said, "next_move", "")
    return f"{getattr(said, 'text', 'no answer of this version')}{'. ' if move else ''}{move}"


def _wait(crew: Crew, waited: list[Guest], found: dict[int, VerifiedRank], tail: Tail, asked: AskedVerify) -> None:
    until = time.monotonic() + asked.wait_s
    while True:
        for pid, record in tail.new():
            guest = next((g for g in waited if g.pid == pid and pid not in found), None)
            if guest is not None and isinstance(record, Verified) and record.module == asked.module:
                found[pid] = _verified(guest, record)
        missing = [guest for guest in waited if guest.pid not in found]
        if not missing:
            return
        over = time.monotonic() >= until
        for guest in missing:
            if guest.state == "lost" or over:
                why = guest.text if guest.state == "lost" else f"no step without replay within {asked.wait_s:.0f} s"
                found[guest.pid] = _cannot(guest, why)
        time.sleep(0.5)
        crew.poll()


def _verified(guest: Guest, record: Verified) -> VerifiedRank:
    rank = guest.status.rank if guest.status else -1
    return VerifiedRank(guest.pid, rank, record.state, record.cosine, record.max_error, record.rows, record.text)


def _cannot(guest: Guest, why: str) -> VerifiedRank:
    return VerifiedRank(guest.pid, guest.status.rank if guest.status else -1, CANNOT, text=why)
