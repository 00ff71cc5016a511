"""``attach`` from its target to its report: by address, by process, or by both where one leads to the other."""

from __future__ import annotations

import socket
from contextlib import suppress
from itertools import pairwise

from m3probe.attach import guests, servers, vllm_profiler
from m3probe.attach import inject as injection
from m3probe.attach import proc as processes
from m3probe.attach.advice import PLUGIN
from m3probe.attach.asked import Asked, Told
from m3probe.attach.crew import Crew
from m3probe.attach.fetch import OK, Client, client
from m3probe.attach.metrics import first_looks
from m3probe.attach.offers import Offers
from m3probe.attach.outcome import Found, late_words, report_of
from m3probe.attach.recording import new_folder, write_manifest
from m3probe.attach.session import Session
from m3probe.attach.within import check_within
from m3probe.errors import M3ProbeError, UnreadableInput, UsageError
from m3probe.model.attach_report import AttachReport
from m3probe.schema.roles import Role

PORT = 8000
"""vLLM's own default."""


def attach(asked: Asked, told: Told) -> AttachReport:
    """Look at one server and record it.

    Raises:
        UsageError: contradictory options, or several servers where one is meant.
        UnreadableInput: there is no server, it is not vLLM, or none of its processes may be recorded.
    """
    if asked.inject:
        injection.check_tool()
    found = _by_url(asked, told) if asked.by_url else _by_process(asked, told)
    if found.crew:
        _prepare(found, asked, told)
    if asked.once:
        return report_of(asked, found, None)
    _check_recordable(found, asked, told)
    folder = new_folder(asked.out)
    write_manifest(folder)
    session = Session(asked, told, folder, found.crew, found.series, found.client)
    session.keep(*found.configs)
    late = late_words(found.crew) if found.crew else ""
    if late:
        told.say(late)
    told.say(f"recording into {folder}" + ("" if asked.seconds or asked.steps else "; Ctrl-C ends it"))
    session.run()
    return report_of(asked, found, session)


def _by_url(asked: Asked, told: Told) -> Found:
    address = client(asked.target, asked.headers, asked.cacert)
    series = first_looks(address)
    offers = Offers(address, series.last or series.why)
    offered = offers.all()
    if all(offer.state == "failed" for offer in offered):
        raise UnreadableInput(f"no server answers ({series.why})", where=address.url, next_move=_NO_SERVER)
    if not offers.version and not (series.last and series.last.is_vllm):
        raise UnreadableInput("a server answers, but it is not vLLM", where=address.url, next_move=_NOT_VLLM)
    crew, note = _processes_of(address, asked)
    if note:
        told.say(note)
    scraped = series if series.last and series.last.is_vllm else None
    return Found(
        crew=crew,
        series=scraped,
        client=address,
        offers=offered,
        version=offers.version,
        notes=(note,) if note else (),
        configs=tuple(offers.configs),
        profiler=offers.profiler,
    )


_NO_SERVER = "Is it up, and is this its own port? A server in a pod has the pod's address"
_NOT_VLLM = "Give the address of vLLM's API server (its /version names a version, its /metrics series `vllm:...`)"


def _processes_of(address: Client, asked: Asked) -> tuple[Crew | None, str]:
    """The processes behind an address of this host, where they are visible; and what must be said of it."""
    if not _is_local(address.host):
        return None, ""
    everyone = processes.everyone(asked.proc)
    pid = next((p for p in everyone if address.port in {port for _, port in processes.listening(p, asked.proc)}), None)
    if pid is None:
        return None, "the server is on this host, but its processes are not visible here (another user, or a container)"
    try:
        server = servers.find(str(pid), asked.proc)
        check_within(server, asked)
    except M3ProbeError as error:
        return None, f"the server is on this host, but only its address is used: {error.sentence()}"
    return Crew(server, asked.proc), f"the server is on this host: its processes (from pid {pid}) are looked at too"


def _by_process(asked: Asked, told: Told) -> Found:
    guests.sweep(asked.proc)
    server = servers.find(asked.target, asked.proc)
    check_within(server, asked)
    address = address_of(server, asked)
    series = None
    if address is not None:
        looks = first_looks(address)
        series = looks if looks.last and looks.last.is_vllm else None
    told.say(f"{len(server.members)} processes of {server.words()}")
    return Found(Crew(server, asked.proc), series, address if series else None)


def address_of(server: servers.Server, asked: Asked) -> Client | None:
    """Where its API server listens: the port that its command line names, else one on which vLLM answers."""
    words = server.root.command
    wanted = {int(value) for value in _values(words, "--port") if value.isdecimal()} or {PORT}
    found = [(host, port) for m in server.members for host, port in processes.listening(m.pid, asked.proc)]
    for host, port in sorted(found, key=lambda item: item[1] not in wanted)[:4]:
        own = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
        address = Client(own, port, headers=asked.headers)
        if address.get("/version", within_s=2.0).status == OK:
            return address
    return None


def _values(words: tuple[str, ...], option: str) -> list[str]:
    after = [value for name, value in pairwise(words) if name == option]
    return after + [word.partition("=")[2] for word in words if word.startswith(f"{option}=")]


def _is_local(host: str) -> bool:
    """Only an address of this host can be bound."""
    with suppress(OSError):
        for family, kind, protocol, _, address in socket.getaddrinfo(host, 0, type=socket.SOCK_DGRAM):
            with suppress(OSError), socket.socket(family, kind, protocol) as probe:
                probe.bind(address)
                return True
    return False


def _prepare(found: Found, asked: Asked, told: Told) -> None:
    crew = found.crew
    if crew is None:
        return
    crew.greet()
    if asked.inject and not asked.once:
        crew.inject(told.say)
    if not asked.once:
        crew.check_free(take_over=asked.take_over)


def _check_recordable(found: Found, asked: Asked, told: Told) -> None:
    crew = found.crew
    dormant = crew.with_state("dormant") if crew else []
    if crew is None and asked.guests:
        raise UnreadableInput(
            "only its address is reached, and what ran is told by its processes",
            where=asked.target,
            next_move="Run m3probe on the server's host, or in its container, as the server's user",
        )
    if crew and not dormant and (asked.guests or not asked.by_url):
        raise UnreadableInput(
            f"no process of the server can be recorded ({crew.without()})",
            where=f"pid {crew.server.root.pid}",
            next_move=f"{PLUGIN[0].upper()}{PLUGIN[1:]}" + ("" if asked.inject else "; or give --inject"),
        )
    if not dormant and found.series is None:
        raise UnreadableInput("nothing here can be recorded: no guest, and no /metrics of vLLM", where=asked.target)
    workers = crew.workers() if crew else []
    if asked.twin and not workers:
        raise UsageError("--eager-twin needs a guest in every worker", next_move="Install the plugin, or --inject")
    if asked.profile:
        _check_profiler(found, asked, told)


def _check_profiler(found: Found, asked: Asked, told: Told) -> None:
    """What the loaded profiler libraries lose or hang on, before a window is asked for."""
    crew = found.crew
    workers = crew.workers() if crew else []
    if not workers and not found.profiler:
        raise UsageError("--profile-steps needs guests in the workers, or vLLM's own profiler configured")
    inherited = processes.environ(crew.server.root.pid, asked.proc) if crew else None
    seen = workers or [guest for guest in crew.all if Role.WORKER in guest.roles] if crew else []
    known = {guest.pid: processes.environ(guest.pid, asked.proc) or inherited for guest in seen}
    reading = vllm_profiler.reading(known, asked.proc)
    for loss in reading.losses:
        told.say(f"--profile-steps: {loss}")
    if reading.refusals and not asked.force_profiler:
        text = "; ".join(reading.refusals)
        raise UsageError(f"--profile-steps refused: {text}", next_move="--force-profiler does it all the same")
