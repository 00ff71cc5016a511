"""Before any figure: are the ranks of this recording one server?

A rank with another build, variable, tuned table, backend or captured kernel makes every sum and every comparison a
figure of two servers.
"""

from __future__ import annotations

from collections.abc import Iterator

from m3probe.model.agreement import TOPICS, Compared, compare
from m3probe.model.findings import Finding
from m3probe.model.recording import Recording
from m3probe.model.report import Answer
from m3probe.plugs import Analyzer

SHOWN = 3
ADVICE = {
    "environment": "Start every rank with the same variables; until then no figure here is of one configuration.",
    "versions": "Run every rank from one image on GPUs of one kind.",
    "tuned_tables": "Give every rank the same tables (AITER_CONFIG_*): a row that one rank lacks slows the whole group down.",
    "backends": "Look at the server's log of the rank that chose otherwise: its guard refused something.",
    "census": "Look at the backends and the environment of the rank whose kernels differ: the others wait for it.",
}


def judge(rec: Recording, so_far: Answer) -> Answer:
    """One finding per topic in which ranks differ; none where they agree or cannot be compared."""
    return Answer(findings=tuple(_findings(rec, hides=bool(so_far.hiding))))


ANALYZER = Analyzer(title="Are the ranks alike?", order=5, judge=judge)


def _findings(rec: Recording, *, hides: bool) -> Iterator[Finding]:
    for topic in TOPICS:
        found = compare(rec, topic)
        if found.differences:
            yield _finding(found, hides=hides and found.records)


def _finding(found: Compared, *, hides: bool) -> Finding:
    shown = "; ".join(difference.sentence for difference in found.differences[:SHOWN])
    more = len(found.differences) - SHOWN
    word = found.topic.replace("_", " ")
    return Finding(
        id=f"trust.ranks.{found.topic}",
        question="trust",
        verdict="differs",
        claim=f"The ranks differ in {word}: {shown}{f'; and {more:,} more' if more > 0 else ''}",
        where=", ".join(dict.fromkeys(d.other_rank for d in found.differences)),
        evidence=(),
        advice=ADVICE[found.topic],
        trusted=not hides,
    )
