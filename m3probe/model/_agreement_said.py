"""What each rank said of one topic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from m3probe.model.recording import Recording

LIVE = "Record the running server (m3probe attach): each rank writes it down itself"


@dataclass(frozen=True, slots=True)
class Said:
    """Rank -> key -> value as text.

    Args:
        whole: a key that one rank has and another lacks is a difference; else only common keys are compared.
        absent: the word for such a key.
        nothing: why no rank said anything.
        tell: which input would tell.
        records: from kernel records, which a profiler may have lost: ranks differ where they have nothing in common.
        compared: what is compared in the place of the texts, as these may be cut.
    """

    by_rank: Mapping[str, Mapping[str, str]]
    nothing: str
    tell: str = LIVE
    whole: bool = False
    absent: str = "not set"
    records: bool = False
    compared: Mapping[str, Mapping[str, frozenset[object]]] = field(default_factory=dict)

    def differ(self, rank: str, other: str, key: str) -> bool:
        """Whether two ranks said different things of a key."""
        if not self.compared:
            return self.by_rank[rank].get(key) != self.by_rank[other].get(key)
        mine, theirs = self.compared[rank].get(key), self.compared[other].get(key)
        if mine is None or theirs is None or not self.records:
            return mine != theirs
        return mine.isdisjoint(theirs)  # the windows of two ranks need not hold the same steps


def label_of(rec: Recording, file: int) -> str:
    """``rank 3``; the file's own name where its rank is not known."""
    rank = rec.files[file].rank
    return f"file {rec.files[file].path}" if rank is None else f"rank {rank}"


def workers(rec: Recording) -> dict[int, str]:
    """File of each worker that recorded itself -> its rank, in the order of the ranks."""
    table = rec.tables["processes"]
    role = rec.strings.find("worker")
    files = [int(f) for f, r in zip(table["file"].tolist(), table["role"].tolist(), strict=True) if r == role]
    ordered = sorted(files, key=lambda f: (rec.files[f].rank is None, rec.files[f].rank or 0, f))
    found: dict[int, str] = {}
    for file in ordered:
        label = label_of(rec, file)
        # engines of a data-parallel server may number their workers from 0 each
        twice = label in found.values()
        found[file] = f"{label} ({rec.files[file].path})" if twice else label
    return found
