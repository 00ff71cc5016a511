"""Steps of the engine: the ranks of one engine run the same step, which makes its tokens once."""

from __future__ import annotations

import re
from pathlib import PurePath

import numpy as np

from m3probe.model.recording import Recording
from m3probe.model.tables import Array

_DP = re.compile(r"(?:^|[_.])dp(\d+)(?=[_.])")  # vLLM names files dp0_pp0_tp1_dcp0_ep1_rank1.*


def engine_steps(rec: Recording) -> Array:
    """Id of the engine's step that each row of steps is a rank's part of, int64 [steps].

    Files of different ranks that show the same annotations in the same order executed the same steps (tensor, expert
    and pipeline parallel); a file that ends early shares those that it has. Ranks with other steps, or of another
    data-parallel engine by their file's name, made tokens of their own. Data-parallel ranks that ran alike from the
    first step to the last, in files whose names do not say so, cannot be told from one engine.
    """
    engines: list[tuple[str, set[int | None], list[int]]] = []
    found = np.zeros(len(rec.steps), dtype=np.int64)
    for file in np.unique(rec.steps["file"]).tolist():
        rows = np.flatnonzero(rec.steps["file"] == file)
        names = rec.steps["name"][rows].tolist()
        dp, rank = _dp(rec.files[file].path), rec.files[file].rank
        same = (
            i for i, (of, ranks, said) in enumerate(engines) if of == dp and rank not in ranks and _alike(said, names)
        )
        place = None if rank is None else next(same, None)
        if place is None:
            place = len(engines)
            engines.append((dp, {rank}, names))
        engines[place][1].add(rank)
        if len(names) > len(engines[place][2]):
            engines[place] = (dp, engines[place][1], names)
        found[rows] = place * (len(rec.steps) + 1) + np.arange(len(rows))
    return found


def once(rec: Recording) -> Array:
    """Mask over steps: one rank's row of every engine step."""
    found = np.zeros(len(rec.steps), dtype=bool)
    found[np.unique(engine_steps(rec), return_index=True)[1]] = True
    return found


def count(rec: Recording, steps: Array) -> int:
    """Engine steps among rows of steps."""
    return len(np.unique(engine_steps(rec)[steps]))


def told(rec: Recording, steps: Array, what: str = "steps") -> str:
    """``9 decode steps``, ``1 decode step``, or ``9 decode steps on each of 4 ranks`` when the rows are of several."""
    number = count(rec, steps)
    what = what.removesuffix("s") if number == 1 else what
    ranks, rest = divmod(len(steps), number) if number else (0, 0)
    if ranks == 1 and not rest:
        return f"{number:,} {what}"
    return f"{number:,} {what} on {f'each of {ranks:,}' if not rest else 'several'} ranks"


def _alike(one: list[int], other: list[int]) -> bool:
    shared = min(len(one), len(other))
    return one[:shared] == other[:shared]


def _dp(path: str) -> str:
    found = _DP.search(PurePath(path).name)
    return found[1] if found else ""
