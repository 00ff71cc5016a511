"""What rules look at: kernel executions, cut by rank and phase, and what could be hidden there.

A rule without ``rank`` is judged on every rank by itself, so figures are never averaged over ranks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from m3probe.kernels.demangle import demangle
from m3probe.kernels.grammar import classify
from m3probe.model.executed import Executed, executed
from m3probe.model.path_report import PathsSection
from m3probe.model.recording import Recording
from m3probe.model.report import Answer, TrustRow, TrustSection
from m3probe.model.tables import NONE, Array
from m3probe.rules._names import function_name, is_pattern, matching, nearest_name
from m3probe.rules.rule import Rule
from m3probe.schema.verdicts import FAMILIES, PHASES, Family, Phase

MISSING_RANK = "missing_rank"
"""Trust's word for a rank without a trace: it hides that rank, not the kernels of the ranks that are there."""

MOST_NAMES = 3

# Steps in which the engine serves nobody; a rule reads them when it names their phase.
_NOT_SERVING = (Phase.EMPTY, Phase.WARMUP, Phase.CAPTURE, Phase.DUMMY)


@dataclass(frozen=True, slots=True)
class Unit:
    """One rank (or one file whose rank is not known) and its files."""

    label: str
    rank: int | None
    files: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Scope:
    """One unit in one phase: a mask over kernel executions, and the step rows."""

    unit: Unit
    rows: Array
    steps: Array


class View:
    """A recording and its answers, as rules read them."""

    def __init__(self, rec: Recording, answer: Answer) -> None:
        self.rec = rec
        section = answer.section(TrustSection)
        self.trust: TrustRow | None = section.trust if section else None
        self.paths = answer.section(PathsSection)
        self._hits: dict[tuple[str, str], Array] = {}

    def hiding(self) -> list[str]:
        """What may have hidden kernels on ranks that are there, in trust's words; empty when nothing did."""
        if self.trust is None:
            return ["nothing judged whether this recording can be trusted"]
        return [r.text for r in self.trust.reasons if r.hides_kernels and r.word != MISSING_RANK]

    @cached_property
    def ran(self) -> Executed:
        """All executions that records or the census prove."""
        return executed(self.rec)

    @cached_property
    def units(self) -> tuple[Unit, ...]:
        """Ranks in order, then files without one; a process beside them that used no device is none of them."""
        files: dict[tuple[int, int], list[int]] = {}
        for index, file in enumerate(self.rec.files):
            if file.role == "rank" and index not in self._bystanders:
                key = (0, file.rank) if file.rank is not None else (1, index)
                files.setdefault(key, []).append(index)
        return tuple(
            Unit(f"file {self.rec.files[key].path}", None, tuple(of))
            if unknown
            else Unit(f"rank {key}", key, tuple(of))
            for (unknown, key), of in sorted(files.items())
        )

    @cached_property
    def _bystanders(self) -> set[int]:
        """Files of processes with no device, step, kernel or graph launch, where others have kernels.

        rocprofv3, rocpd and nsys write them for vLLM's API server. A kineto trace is not told by its device: without
        kernels it may be a rank that lost them all.
        """
        rec = self.rec
        graphs = rec.launches["file"][rec.graph_launches]
        works = {*self.ran.file.tolist(), *rec.steps["file"].tolist(), *graphs.tolist()}
        if not len(self.ran.file):
            return set()
        return {
            index
            for index, file in enumerate(rec.files)
            if index not in works and file.kind != "kineto" and file.rank is None and not file.device
        }

    def chosen(self, rule: Rule) -> list[Unit]:
        """Units that the rule is about."""
        return [unit for unit in self.units if rule.rank in (None, unit.rank)]

    def scope(self, unit: Unit, phase: Phase | None) -> Scope:
        """Executions and steps of a unit; without a phase all executions and the serving steps."""
        import numpy as np

        steps, ran = self.rec.steps, self.ran
        mine = np.isin(steps["file"], unit.files)
        rows = np.isin(ran.file, unit.files)
        if phase is None:
            idle = [PHASES.index(word) for word in _NOT_SERVING]
            return Scope(unit, rows, np.flatnonzero(mine & ~np.isin(steps["phase"], idle)))
        inside = mine & (steps["phase"] == PHASES.index(phase))
        rows &= np.append(inside, False)[ran.step]  # step -1 reads the appended False
        return Scope(unit, rows, np.flatnonzero(inside))

    def hits(self, rule: Rule) -> Array:
        """Mask over executions: those of the rule's kernel or family."""
        key = (rule.kind, rule.name)
        if key not in self._hits:
            self._hits[key] = self._find(rule)
        return self._hits[key]

    def _find(self, rule: Rule) -> Array:
        import numpy as np

        if rule.kind == "family":
            return np.asarray(self.ran.family == FAMILIES.index(Family(rule.name)))
        ids, inverse = np.unique(self.ran.name, return_inverse=True)
        meant = matching(rule.name, self.rec.strings.of(ids.tolist()))
        return np.array(meant, dtype=bool)[inverse]

    def near(self, rule: Rule) -> str:
        """A kernel name that the recording holds and that looks like the rule's; may be empty."""
        import numpy as np

        if rule.kind != "kernel":
            return ""
        return nearest_name(rule.name, self.rec.strings.of(np.unique(self.ran.name).tolist()))

    def instead(self, rule: Rule) -> str:
        """Other kernels of the family of the rule's kernel, most common first; empty for patterns and families."""
        import numpy as np

        if rule.kind != "kernel" or rule.forbid or is_pattern(rule.name):
            return ""
        family = classify(rule.name).family
        if family in (Family.UNKNOWN, Family.OTHER):
            return ""
        rows = (self.ran.family == FAMILIES.index(family)) & ~self.hits(rule)
        ids, times = np.unique(self.ran.name[rows], return_counts=True)
        most = np.argsort(-times, kind="stable")[:MOST_NAMES]
        return ", ".join(f"{int(times[i]):,} x {function_name(demangle(self.rec.strings[int(ids[i])]))}" for i in most)

    def recorded(self, rank: int | None) -> bool:
        """Whether any file, a guest's too, is of this rank."""
        return rank is None or any(f.rank == rank for f in self.rec.files if f.role in ("rank", "guest"))

    def hidden(self, rule: Rule, scope: Scope) -> list[str]:
        """Why kernels of the rule could have run in the scope unseen; empty when they could not."""
        return self.hiding() or [*self._bare_launches(scope), *self._loose(rule, scope)]

    def _bare_launches(self, scope: Scope) -> list[str]:
        import numpy as np

        launches = self.rec.launches
        bare = self.rec.unseen_replays
        bare &= np.isin(launches["file"], scope.unit.files) & np.isin(launches["step"], scope.steps)
        count = int(bare.sum())
        return [f"{count:,} graph launch(es) show no kernel and match no census"] if count else []

    def _loose(self, rule: Rule, scope: Scope) -> list[str]:
        """Kernels without a step may belong to any: a rule on steps cannot tell."""
        import numpy as np

        if rule.phase is None and rule.per_step is None:
            return []
        loose = self.hits(rule) & (self.ran.step == NONE) & np.isin(self.ran.file, scope.unit.files)
        count = int(loose.sum())
        return [f"{count:,} of these kernels belong to no step (their launch is not in the trace)"] if count else []

    def missing_ranks(self) -> str:
        """Trust's sentence on ranks without a trace, or empty."""
        reasons: Sequence[str] = [r.text for r in self.trust.reasons if r.word == MISSING_RANK] if self.trust else ()
        return "; ".join(reasons)
