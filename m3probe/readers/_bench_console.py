"""The box that ``vllm bench serve`` and SGLang's client print, alone or inside any log, several of them too."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from m3probe.model.bench import E2EL, ITL, TPOT, TTFT, BenchRun, Drafts
from m3probe.readers._bench_documents import finite
from m3probe.readers._bench_latency import Stats, measured
from m3probe.readers._bench_run import completed_by

TITLE = "Serving Benchmark Result"
_END = re.compile(r"={20,}$")
_FIELD = re.compile(r"\s*([^:]{3,60}):\s+(\S+)\s*$")
_LATENCY = re.compile(r"(Mean|Median|Std|P\d{1,2}(?:\.\d{1,4})?|P100) (TTFT|TPOT|ITL|E2EL|E2E Latency) \(ms\)")
_METRICS = {"TTFT": TTFT, "TPOT": TPOT, "ITL": ITL, "E2EL": E2EL, "E2E Latency": E2EL}
_MOST_FIELD = 200
"""Characters of a line that can be a field: label and figure take 51."""
_ARGUMENTS = "Namespace("
_POSITION = re.compile(r"Position \d{1,3}")
_ARGUMENT = re.compile(r"\b(backend|model|num_prompts|label)=(?:'([^']{1,200})'|(\d{1,12}))")
# Labels changed between versions in case alone ("Total Token throughput", 0.9; "Total token throughput", 0.12).
_NUMBERS = {
    "benchmark duration (s)": "duration_s",
    "request throughput (req/s)": "request_throughput",
    "request goodput (req/s)": "goodput",
    "input token throughput (tok/s)": "input_throughput",
    "output token throughput (tok/s)": "output_throughput",
    "total token throughput (tok/s)": "total_token_throughput",
    "peak output token throughput (tok/s)": "max_output_tokens_per_s",
    "request rate configured (rps)": "request_rate",
    "traffic request rate": "request_rate",
    "burstiness factor": "burstiness",
}
_COUNTS = {
    "successful requests": "completed",
    "failed requests": "failed",
    "maximum request concurrency": "max_concurrency",
    "max request concurrency": "max_concurrency",
    "peak concurrent requests": "max_concurrent_requests",
    "total input tokens": "total_input_tokens",
    "total generated tokens": "total_output_tokens",
}
_BEFORE = ("request_rate", "burstiness", "max_concurrency")
"""What the client prints before its box, and not always in it."""


@dataclass(slots=True)
class Boxes:
    """Fed with lines in order; holds the runs of the boxes that they make.

    ``cut``: boxes whose last line is missing.
    """

    file: int
    path: str
    runs: list[BenchRun] = field(default_factory=list)
    cut: int = 0
    _values: dict[str, float] = field(default_factory=dict)
    _texts: dict[str, str] = field(default_factory=dict)
    _stats: dict[str, Stats] = field(default_factory=dict)
    _drafts: dict[str, float] = field(default_factory=dict)
    _positions: list[float] = field(default_factory=list)
    _open: bool = False

    def feed(self, lines: Iterable[str]) -> None:
        """Look at lines without their log prefixes."""
        for line in lines:
            if TITLE in line and "==" in line:
                self._close(whole=False)
                self._open = True
            elif self._open and _END.match(line.strip()):
                self._close(whole=True)
            elif len(line) <= _MOST_FIELD or line.startswith(_ARGUMENTS):
                self._take(line)

    def end(self) -> None:
        """The input ends."""
        self._close(whole=False)

    def _take(self, line: str) -> None:
        found = _FIELD.match(line)
        if found:
            self._field(found[1].strip(), found[2])
        elif not self._open and line.startswith(_ARGUMENTS):
            self._texts |= {name: text or number for name, text, number in _ARGUMENT.findall(line)}

    def _field(self, label: str, text: str) -> None:
        name, value = label.lower(), finite(text)
        known = _NUMBERS.get(name) or _COUNTS.get(name)
        if known == "request_rate" and text.lower() == "inf":
            self._values[known] = math.inf
        if value is None or value < 0 or not (self._open or known in _BEFORE):
            return
        latency = _LATENCY.fullmatch(label)
        if latency:
            self._stats.setdefault(_METRICS[latency[2]], {})[latency[1].lower()] = value
        elif known:
            self._values[known] = value
        elif _POSITION.fullmatch(label):
            self._positions.append(value / 100)
        elif name in _DRAFTS:
            self._drafts[_DRAFTS[name]] = value

    def _close(self, *, whole: bool) -> None:
        if not self._open:
            return
        self._open = False
        self.cut += not whole
        self.runs.append(self._run())
        self._values, self._stats, self._drafts, self._positions = {}, {}, {}, []

    def _run(self) -> BenchRun:
        counts = {name: int(self._values[name]) for name in set(_COUNTS.values()) if name in self._values}
        if not counts.get("max_concurrency"):
            counts.pop("max_concurrency", None)
        numbers = {name: self._values[name] for name in set(_NUMBERS.values()) if name in self._values}
        prompts = finite(self._texts.get("num_prompts"))
        return completed_by(
            BenchRun(
                file=self.file,
                path=self.path,
                index=len(self.runs),
                dialect="console",
                label=self._texts.get("label", ""),
                backend=self._texts.get("backend", ""),
                model=self._texts.get("model", ""),
                num_prompts=None if prompts is None else int(prompts),
                latencies=measured(self._stats),
                drafts=self._accepted(),
                **counts,  # type: ignore[arg-type]
                **numbers,  # type: ignore[arg-type]
            )
        )

    def _accepted(self) -> Drafts | None:
        found = self._drafts
        if not found:
            return None
        return Drafts(
            acceptance_rate=found["rate"] / 100 if "rate" in found else None,
            acceptance_length=found.get("length") or None,
            drafts=_whole(found.get("drafts")),
            draft_tokens=_whole(found.get("draft_tokens")),
            accepted_tokens=_whole(found.get("accepted_tokens")),
            by_position=tuple(self._positions),
        )


_DRAFTS = {
    "acceptance rate (%)": "rate",
    "acceptance length": "length",
    "accept length": "length",
    "drafts": "drafts",
    "draft tokens": "draft_tokens",
    "accepted tokens": "accepted_tokens",
}


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)


def lines_of(text: str) -> Iterator[str]:
    """A line's states: what a carriage return overwrites was a progress bar."""
    yield text.rpartition("\r")[2] if "\r" in text else text
