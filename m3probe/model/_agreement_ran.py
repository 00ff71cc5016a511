"""Ranks compared by the kernels of their captured graphs, or where none were read by the kernels of like steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np

from m3probe.model._agreement_said import Said, label_of
from m3probe.model.recording import Recording
from m3probe.model.tables import NONE
from m3probe.schema.verdicts import GRAPH_MODES, PHASES, Phase

_TELL = "Give every rank's trace, or its capture trace (a vLLM profile folder), or record with m3probe attach"
_IDLE = frozenset(PHASES.index(phase) for phase in (Phase.EMPTY, Phase.WARMUP, Phase.CAPTURE, Phase.DUMMY))
MOST_NAMES = 3

Multiset = frozenset[tuple[str, int]]


def census(rec: Recording) -> Said:
    """Kernel multisets: by captured batch, else by steps of equal phase, rows and requests."""
    captured = _captured(rec)
    if captured:
        told, sets = _told(captured), _frozen(captured)
        return Said(told, "no captured graph", _TELL, whole=True, absent="not captured", compared=sets)
    recorded = _recorded(rec)
    told, sets = _told(recorded), _frozen(recorded)
    return Said(told, "no kernel of a step was recorded", _TELL, records=True, compared=sets)


def _captured(rec: Recording) -> dict[str, dict[str, set[Multiset]]]:
    table = rec.graphs
    found: dict[str, dict[str, set[Multiset]]] = {}
    if not len(table):
        return found
    starts = np.flatnonzero(np.append(True, table["graph"][1:] != table["graph"][:-1]))
    for rows in np.split(np.arange(len(table)), starts[1:]):
        at = int(rows[0])
        mode, padded = int(table["mode"][at]), int(table["padded_rows"][at])
        key = f"{GRAPH_MODES[mode]} graph" if mode >= 0 else "graph of an unknown batch"
        key += f" of {padded:,} rows" if padded >= 0 else ""
        here = found.setdefault(label_of(rec, int(table["file"][at])), {})
        here.setdefault(key, set()).add(_multiset(rec, table["name"][rows].tolist()))
    return found


def _recorded(rec: Recording) -> dict[str, dict[str, set[Multiset]]]:
    steps, kernels = rec.steps, rec.kernels
    labels = {file: label_of(rec, file) for file in np.unique(steps["file"]).tolist()}
    found: dict[str, dict[str, set[Multiset]]] = {label: {} for label in labels.values()}
    if len(found) < 2:
        return found  # nothing to compare, and a trace of one rank may hold millions of kernels
    # one sort brings the kernels of each step together and by name, so that equal steps have equal bytes
    order = np.argsort(kernels["step"].astype(np.int64) * (len(rec.strings) + 1) + kernels["name"], kind="stable")
    names = kernels["name"][order]
    cuts = np.searchsorted(kernels["step"][order], np.arange(len(steps) + 1))
    known: dict[bytes, Multiset] = {}
    for row, file in enumerate(steps["file"].tolist()):
        mine = names[cuts[row] : cuts[row + 1]]
        if int(steps["phase"][row]) in _IDLE or not len(mine) or int(steps["rows"][row]) == NONE:
            continue
        content = mine.tobytes()
        if content not in known:
            known[content] = _multiset(rec, mine.tolist())
        found[labels[file]].setdefault(_step_key(rec, row), set()).add(known[content])
    return {label: here for label, here in found.items() if here}


def _step_key(rec: Recording, row: int) -> str:
    steps = rec.steps
    rows, requests = int(steps["rows"][row]), int(steps["requests"][row])
    return f"{PHASES[int(steps['phase'][row])]} step of {rows:,} rows, {requests:,} requests"


def _multiset(rec: Recording, names: Iterable[int]) -> Multiset:
    return frozenset((rec.strings[name], times) for name, times in Counter(names).items())


def _told(found: dict[str, dict[str, set[Multiset]]]) -> dict[str, dict[str, str]]:
    """Sets of multisets as text: the kernels in which ranks differ, and how many there are in all."""
    shared = {key: set.intersection(*held) for key, held in _by_key(found).items()}
    return {
        label: {key: _words(sets, shared[key]) for key, sets in sorted(here.items())}
        for label, here in sorted(found.items(), key=lambda item: (len(item[0]), item[0]))
    }


def _frozen(found: dict[str, dict[str, set[Multiset]]]) -> dict[str, dict[str, frozenset[object]]]:
    return {label: {key: frozenset(sets) for key, sets in here.items()} for label, here in found.items()}


def _by_key(found: dict[str, dict[str, set[Multiset]]]) -> dict[str, list[set[tuple[str, int]]]]:
    keyed: dict[str, list[set[tuple[str, int]]]] = {}
    for here in found.values():
        for key, sets in here.items():
            keyed.setdefault(key, []).append(set().union(*sets))
    return keyed


def _words(sets: set[Multiset], shared: set[tuple[str, int]]) -> str:
    """What the other ranks do not have too comes first, then the size of each multiset."""
    own = sorted(set().union(*sets) - shared)
    sizes = ", ".join(f"{n:,}" for n in sorted(sum(times for _name, times in s) for s in sets))
    shown = ", ".join(f"{times:,} x {_short(name)}" for name, times in own[:MOST_NAMES])
    more = f" and {len(own) - MOST_NAMES:,} more names" if len(own) > MOST_NAMES else ""
    return f"{shown}{more} of {sizes} kernels" if own else f"{sizes} kernels"


def _short(name: str) -> str:
    return name if len(name) <= 80 else f"{name[:77]}..."
