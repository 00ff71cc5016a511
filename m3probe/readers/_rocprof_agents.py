"""rocprofv3's agents: which of them are GPUs, in which order, and which rank each stands for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from m3probe.model.recording import Device, Note, RecordingBuilder, SourceFile
from m3probe.model.tables import NONE

KINDS = ("rocprofv3-csv", "rocprofv3-json")
TOLD, UNTOLD = "ranks_told", "ranks_untold"
_LABEL = re.compile(r"(?:(?P<scheme>Agent|GPU|CPU)\s+)?(?P<number>\d{1,9})")


@dataclass(frozen=True, slots=True)
class Agent:
    """One row of ``agent_info``, or one entry of ``agents``.

    Args:
        node: its number in the system; ``logical``: among the agents that the process sees.
        gpu: its number among the GPUs, -1 for a CPU.
        handle: as text; empty in a CSV, which has none.
    """

    node: int
    logical: int
    gpu: int
    handle: str = ""
    gfx: str = ""
    device: Device | None = None


def numbered(agents: Sequence[tuple[Agent, bool, int]]) -> list[Agent]:
    """Agents with the number of each GPU filled in.

    Args:
        agents: (agent, whether it is a GPU, its number among its type as written, -1 where it is not).
    """
    order = sorted((agent.logical, i) for i, (agent, is_gpu, _) in enumerate(agents) if is_gpu)
    place = {i: at for at, (_, i) in enumerate(order)}
    return [
        replace(agent, gpu=(said if said >= 0 else place[i]) if is_gpu else NONE)
        for i, (agent, is_gpu, said) in enumerate(agents)
    ]


def scheme_of(label: str) -> tuple[str, int]:
    """(``gpu``, ``cpu`` or ``node``, number) of ``GPU 3``, ``Agent 7`` or ``7``; ("", -1) of anything else."""
    found = _LABEL.fullmatch(label.strip())
    if found is None:
        return "", NONE
    return {"GPU": "gpu", "CPU": "cpu"}.get(found["scheme"] or "", "node"), int(found["number"])


def agent_of(label: str, agents: Sequence[Agent]) -> Agent | None:
    """The GPU that a label means; None where that cannot be told.

    ``Agent 4`` is a place among all agents, logical or absolute: without ``agents``, or where the two disagree, nothing
    says which GPU it is.
    """
    scheme, number = scheme_of(label)
    if scheme == "gpu":
        return next((agent for agent in agents if agent.gpu == number), Agent(NONE, NONE, number))
    if scheme != "node":
        return None
    found = [agent for agent in agents if number in (agent.logical, agent.node) and agent.gpu >= 0]
    return found[0] if len(found) == 1 else None


def gfx_name(target: int) -> str:
    """``gfx950`` of 90500: major, minor and a step in hexadecimal; empty where nothing is said."""
    major, minor, step = target // 10_000, target // 100 % 100, target % 100
    return f"gfx{major}{minor:x}{step:x}" if 0 < target < 10**6 else ""


def tell_ranks(builder: RecordingBuilder) -> None:
    """Ranks of rocprofv3's files so far, told anew with each: one rank for each GPU of a host.

    The number of the GPU where it is known; else, with several agents, their order. Processes that were each shown one
    GPU alone (``ROCR_VISIBLE_DEVICES``) all call it 0: then the order of their nodes. Where two folders would give one rank
    twice (two hosts, or two runs) none is told.
    """
    rows = [i for i, file in enumerate(builder.files) if file.kind in KINDS and file.role == "rank"]
    ranks = {i: builder.files[i].gpu for i in rows}
    unknown = [i for i in rows if ranks[i] is None and builder.files[i].device]
    how = "the number of its GPU"
    if unknown and len(unknown) == len([i for i in rows if builder.files[i].device]):
        order = _by_order([builder.files[i].device for i in unknown])
        ranks |= {i: order.get(builder.files[i].device) for i in unknown}
        how = "the place of its agent among those with records (no agent_info beside them)"
    elif nodes := _by_node([builder.files[i] for i in rows]):
        ranks = {i: nodes.get(builder.files[i].node) for i in rows}
        how = "the place of its GPU among those with records (the processes number them unlike)"
    places: dict[int | None, set[Path]] = {}
    for i in rows:
        places.setdefault(ranks[i], set()).add(Path(builder.files[i].path).parent)
    clash = any(rank is not None and len(folders) > 1 for rank, folders in places.items())
    for i in rows:
        builder.files[i] = replace(builder.files[i], rank=None if clash else ranks[i])
    builder.notes[:] = [note for note in builder.notes if note.word not in (TOLD, UNTOLD)]
    if clash:
        text = "ranks are not told: several folders (hosts or runs) hold files of the same GPU; name one of them"
        builder.note([Note(UNTOLD, text, builder.files[rows[0]].path, len(rows), quiet=True)])
    elif any(rank is not None for rank in ranks.values()):
        text = f"rank of each process: {how}"
        builder.note([Note(TOLD, text, builder.files[rows[0]].path, len(rows), quiet=True)])


def _by_node(files: Sequence[SourceFile]) -> dict[int | None, int]:
    """Node -> rank, where one number stands for GPUs of several nodes of a host and each file with a GPU tells its node."""
    told = [(file.gpu, file.node) for file in files if file.gpu is not None]
    one_host = len({Path(file.path).parent for file in files}) == 1
    if not one_host or any(node is None for _, node in told) or len(set(told)) == len({gpu for gpu, _ in told}):
        return {}
    return {node: rank for rank, node in enumerate(sorted({node for _, node in told if node is not None}))}


def _by_order(labels: Sequence[str]) -> dict[str, int]:
    """Label -> rank; nothing for one agent alone, or labels of several schemes."""
    said = {label: scheme_of(label) for label in labels}
    if len(said) < 2 or {scheme for scheme, _ in said.values()} != {"node"}:
        return {}
    return {label: rank for rank, label in enumerate(sorted(said, key=lambda label: said[label][1]))}
