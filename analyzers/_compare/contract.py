"""What two runs share: topic by topic, and what may be said of a ratio of theirs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from m3probe.analyzers._compare import facts as of
from m3probe.model.compare_report import AS_FAR, CORE, DIFFERS, EQUAL, OTHER, SAME, UNKNOWN, Contract, Setting, Topic
from m3probe.model.compare_run import RunKept

CONTROLLED, DENSITY, HARDWARE, EVOLUTION = "controlled", "density", "other hardware", "evolution"
_TELLS: Mapping[str, str] = {
    of.MODEL: "the benchmark's own result, --recipe FILE or the server's log",
    of.WEIGHTS: "--recipe FILE or the server's log (with --model-config FILE)",
    of.BUILD: "the server's log, a live recording, or --vllm VERSION with --recipe",
    of.HARDWARE: "a trace or a live recording, --gpu with --recipe, or hw among the benchmark's --metadata",
    of.GPUS: "num_gpus among the benchmark's --metadata, --recipe FILE, or the server's log",
    of.TOPOLOGY: "--recipe FILE or the server's log",
    of.WORKLOAD: "the benchmark's result, or steps with sequence lengths",
    of.CONCURRENCY: "the benchmark's result (max_concurrency), or steps with their requests",
    of.WORK: "--recipe FILE or the server's log",
    of.ACCEPTANCE: "the benchmark's result of a server with drafts (spec_decode_acceptance_length)",
    of.PREFIX: "--recipe FILE, or the hit rate among the benchmark's results",
}


def contract(a: RunKept, b: RunKept, settings: Sequence[Setting] | None) -> Contract:
    """Every topic, and the verdict.

    Args:
        settings: what of the two configurations differs; None where one of them is not known.
    """
    topics = tuple(_topic(name, a.facts.get(name, {}), b.facts.get(name, {})) for name in of.TOPICS)
    differ = [t for t in topics if t.state == DIFFERS]
    unknown = [t for t in topics if t.state == UNKNOWN]
    verdict = OTHER if differ else AS_FAR if unknown else SAME
    kind = _kind([t.topic for t in differ])
    return Contract(verdict, kind, _claim(kind, differ, unknown), topics, None if settings is None else tuple(settings))


def differing(found: Contract) -> tuple[str, ...]:
    """Topics that differ."""
    return tuple(t.topic for t in found.topics if t.state == DIFFERS)


def _topic(name: str, a: Mapping[str, str], b: Mapping[str, str]) -> Topic:
    """Held against each other source by source: a client's label is no server's flag."""
    both = [source for source in a if source in b]
    unlike = [source for source in both if not _alike(name, source, a[source], b[source])]
    if unlike:
        at = unlike[0]
        return Topic(name, DIFFERS, _said(name, at, a[at]), _said(name, at, b[at]), "")
    if both and _enough(name, both):
        at = both[0]
        return Topic(name, EQUAL, _said(name, at, a[at]), _said(name, at, b[at]), "")
    shown = [
        {source: side[source] for source in both} or side for side in (a, b)
    ]  # one fact of both where there is one
    before, after = (next((_said(name, s, v) for s, v in side.items()), None) for side in shown)
    return Topic(name, UNKNOWN, before, after, _TELLS[name])


def _enough(name: str, both: Sequence[str]) -> bool:
    """A length alone is half a workload, and one path that did not run is not all of the model's work."""
    if name == of.WORK:
        return of.CONFIGURATION in both
    if name == of.WORKLOAD:
        return bool({of.HELD, "isl", of.INPUT} & set(both)) and (
            of.HELD in both or bool({"osl", of.OUTPUT} & set(both))
        )
    return True


def _alike(name: str, source: str, a: str, b: str) -> bool:
    several = source in of.POINTS or (name == of.CONCURRENCY and source == of.CLIENT)
    sides = [side.split(", ") if several else [side] for side in (a, b)]
    return any(_same(name, source, x, y) for x in sides[0] for y in sides[1])


def _same(name: str, source: str, a: str, b: str) -> bool:
    if source in of.TOLERANCE:
        x, y = float(a), float(b)
        return abs(x - y) <= of.TOLERANCE[source] * max(abs(x), abs(y))
    if name == of.MODEL:
        return a.rsplit("/", 1)[-1].lower() == b.rsplit("/", 1)[-1].lower()
    return a == b


def _said(topic: str, source: str, value: str) -> str:
    named = topic == of.WORK or source in (of.CONFIGURATION, of.CLIENT, of.RECORDED)
    return value if named else f"{value} ({source})"


def _kind(differ: Sequence[str]) -> str:
    if not differ:
        return CONTROLLED
    if of.HARDWARE in differ:
        return HARDWARE
    return DENSITY if {of.GPUS, of.TOPOLOGY} & set(differ) else EVOLUTION


def _claim(kind: str, differ: Sequence[Topic], unknown: Sequence[Topic]) -> str:
    if not differ:
        listed = ", ".join(t.topic for t in unknown)
        core = [t.topic for t in unknown if t.topic in CORE]
        if core:
            return f"same as far as known, and no ratio is called a speed-up while {', '.join(core)} is not known"
        return f"same as far as known ({listed} not known)" if unknown else "same contract"
    listed = "; ".join(f"{t.topic} {t.before} against {t.after}" for t in differ)
    what = {
        HARDWARE: "other hardware: differences are shown, and no speed-up is claimed",
        DENSITY: "density, not speed-up: another number of GPUs or another layout; per-GPU figures say what a GPU yields",
        EVOLUTION: "evolution, not a controlled comparison: no speed-up is claimed",
    }[kind]
    return f"not the same contract: {listed} ({what})"
