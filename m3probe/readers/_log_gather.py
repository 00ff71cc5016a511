"""What the lines of one log say, put together: each statement once, with how often it was made."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from m3probe.model.server_log import LogCounts, LogKind, LogLine, ServerLog
from m3probe.readers._log_lines import Line
from m3probe.readers._log_run import MOST_MESSAGES, Run
from m3probe.readers._log_time import Clock

MOST_OF_A_KIND = 300
"""Different statements of one kind that are kept; tuned tables are asked once for each shape."""
MOST_TEXT = 400
"""Characters of a statement that are kept."""
MOST_LABELS = 4_096
_NUMBERED = re.compile(r"(DP|PP|TP|EP)(\d{1,6})")
_WORKER = re.compile(r"(?:Vllm)?Worker(?:Process|Proc)?(?=$|[ _])|RayWorkerWrapper")


@dataclass(slots=True)
class Gathered:
    """Filled line by line; ``log`` is what it comes to."""

    version: str = ""
    asked: Mapping[str, Any] | None = None
    config: Mapping[str, Any] | None = None
    architecture: str = ""
    platform: str = ""
    ready: bool = False
    env: dict[str, str] = field(default_factory=dict)
    configs: list[Mapping[str, Any]] = field(default_factory=list)
    """Every engine's, in order: of one server they are alike."""
    levels: Counter[str] = field(default_factory=Counter)
    foreign: int = 0
    json: int = 0
    plain: int = 0
    unparsed: int = 0
    beyond: int = 0
    labels: dict[str, None] = field(default_factory=dict)
    clock: Clock = field(default_factory=Clock)
    run: Run = field(default_factory=Run)
    _said: dict[tuple[str, ...], LogLine] = field(default_factory=dict)
    _kinds: Counter[LogKind] = field(default_factory=Counter)

    def say(self, line: Line, kind: LogKind, value: str = "", refused: str = "", **details: str) -> None:
        """Keep one statement."""
        value, refused = value.strip()[:MOST_TEXT], refused.strip()[:MOST_TEXT]
        key = (kind, value, refused, line.label, *details.values())
        known = self._said.get(key)
        if known is not None:
            self._said[key] = replace(known, count=known.count + 1)
            return
        if self._kinds[kind] >= MOST_OF_A_KIND:
            self.beyond += 1
            return
        self._kinds[kind] += 1
        text = line.text[:MOST_TEXT]
        self._said[key] = LogLine(kind, value, text, line.label, None, line.number, refused, details)

    def count(self, line: Line) -> None:
        """What kind of line it is, and whose."""
        if line.level:
            self.levels[line.level] += 1
            self.json += line.json
            if len(self.run.messages) < MOST_MESSAGES:
                self.run.messages.append(line.text[:MOST_TEXT])
        elif line.foreign:
            self.foreign += 1
        elif line.text:
            self.plain += 1
        if (line.level or line.label) and len(self.labels) < MOST_LABELS:
            self.labels.setdefault(line.label)
        if line.source in _PLATFORMS and not self.platform:
            self.platform = _PLATFORMS[line.source]

    def chatter(self, label: bytes | None, level: str) -> None:
        """A line that was known for nothing by its beginning."""
        if level:
            self.levels[level] += 1
        else:
            self.plain += 1
        if (level or label) and len(self.labels) < MOST_LABELS:
            self.labels.setdefault(label.decode("utf-8", "replace") if label else "")

    def log(self, file: int, path: str, *, lines: int, cut: int, repaired: int) -> ServerLog:
        """The whole of it."""
        config = self.configs[0] if self.configs else None
        ranks = {label: rank_of(label, config) for label in self.labels}
        counts = LogCounts(
            lines=lines,
            records=self.levels.total(),
            foreign=self.foreign,
            unparsed=self.plain if self.json else 0,
            cut=cut,
            repaired=repaired,
            beyond=self.beyond,
            levels=dict(self.levels),
        )
        return ServerLog(
            file=file,
            path=path,
            version=self.version,
            asked=self.asked,
            config=config,
            architecture=self.architecture,
            platform=self.platform or _platform(config),
            starts=len({str(c) for c in self.configs}),
            ready=self.ready,
            labels=tuple(self.labels),
            ranks=tuple(sorted({rank for rank in ranks.values() if rank is not None})),
            said=tuple(replace(line, rank=ranks.get(line.process)) for line in self._said.values()),
            env=dict(self.env),
            counts=counts,
            run=self.run.told(),
        )


_PLATFORMS = {"rocm.py": "rocm", "cuda.py": "cuda", "cpu.py": "cpu"}
"""Each platform's own file writes the backend that it chose."""


def _platform(config: Mapping[str, Any] | None) -> str:
    """vLLM calls ROCm's devices cuda too: that word alone tells nothing."""
    return "cpu" if config and config.get("device_config") == "cpu" else ""


def rank_of(label: str, config: Mapping[str, Any] | None) -> int | None:
    """Global rank of a process: ``(dp x PP + pp) x TP + tp``; None where its label or the sizes do not tell.

    One GPU's engine runs its worker in its own process, so that there the engine's label is the worker's.
    """
    sizes = [config.get(f"{name}_parallel_size") if config else None for name in ("tensor", "pipeline")]
    tp, pp = (size if isinstance(size, int) and size > 0 else None for size in sizes)
    said = {name: int(number) for name, number in _NUMBERED.findall(label)}
    engine = label.startswith("EngineCore")
    if engine and (tp, pp) != (1, 1):
        return None
    if not engine and not _WORKER.match(label):
        return None
    if not engine and "TP" not in said and (tp or 0) > 1:
        return None
    if not engine and not said and tp is None:
        return None
    if (said.get("DP") and None in (tp, pp)) or (said.get("PP") and tp is None):
        return None
    return (said.get("DP", 0) * (pp or 1) + said.get("PP", 0)) * (tp or 1) + said.get("TP", 0)
