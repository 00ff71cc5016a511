"""Whether the ranks of one server are alike: environment, versions, tuned tables, backends, captured kernels.

A rank that runs another build, reads another table or took another backend makes every figure of the group one of two
servers: it is asked before any claim about speed. Nothing is judged here; ``compare`` tells what differs and what could
not be compared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from m3probe.model._agreement_live import backends, environment, tuned_tables, versions
from m3probe.model._agreement_ran import census
from m3probe.model._agreement_said import Said
from m3probe.model.recording import Recording

_TOPICS: Mapping[str, Callable[[Recording], Said]] = {
    "environment": environment,
    "versions": versions,
    "tuned_tables": tuned_tables,
    "backends": backends,
    "census": census,
}
TOPICS = tuple(_TOPICS)
"""What ranks can be compared in."""

OTHERS = "Give the other ranks' files too, or drop the rule for a server of one rank"


@dataclass(frozen=True, slots=True)
class Difference:
    """One key on which two ranks differ; values are foreign text."""

    key: str
    rank: str
    value: str
    other_rank: str
    other_value: str

    @property
    def sentence(self) -> str:
        """``VLLM_ROCM_USE_AITER: '1' on rank 0, 'not set' on rank 3``."""
        return f"{self.key}: {self.value} on {self.rank}, {self.other_value} on {self.other_rank}"


@dataclass(frozen=True, slots=True)
class Compared:
    """Ranks compared in one topic.

    Args:
        ranks: those that said something.
        keys: how many keys were compared.
        why: why nothing was; empty where something was.
        tell: which input would tell.
        records: compared by kernel records, which a profiler may have lost.
    """

    topic: str
    ranks: tuple[str, ...]
    keys: int
    differences: tuple[Difference, ...]
    why: str = ""
    tell: str = ""
    records: bool = False


def compare(rec: Recording, topic: str) -> Compared:
    """All ranks of a recording against the first one.

    Args:
        topic: one of ``TOPICS``.
    """
    said = _TOPICS[topic](rec)
    ranks = tuple(said.by_rank)
    if len(ranks) < 2:
        if ranks:
            return Compared(topic, ranks, 0, (), "one rank: nothing to compare", OTHERS)
        return Compared(topic, ranks, 0, (), said.nothing, said.tell)
    first, *others = ranks
    keys, differences = 0, []
    for other in others:
        mine, theirs = said.by_rank[first], said.by_rank[other]
        both = [key for key in dict.fromkeys((*mine, *theirs)) if said.whole or (key in mine and key in theirs)]
        keys = max(keys, len(both))
        differences += [
            Difference(key, first, mine.get(key, said.absent), other, theirs.get(key, said.absent))
            for key in both
            if said.differ(first, other, key)
        ]
    why = "" if keys else "the ranks have nothing in common that could be compared"
    return Compared(topic, ranks, keys, tuple(differences), why, said.tell, said.records)
