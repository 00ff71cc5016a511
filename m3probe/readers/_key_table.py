"""Lines -> the tables that ``key_averages().table()`` prints: a line of dashes, a heading, dashes, rows, dashes, totals."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from m3probe.model.kernel_table import KernelTable, KernelTableRow
from m3probe.readers._steps import PROFILER_STEP, parse

MOST_ROWS = 100_000
"""Of one table; torch prints 100 unless it is told otherwise."""
_DASHES = re.compile(r"-{4,}(?: +-{4,})+ *$")
_GAP = re.compile(r" {2,}")
_TIME = re.compile(r"(\d{1,12}(?:\.(\d{1,6}))?)(ns|us|ms|s)")
_UNITS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
_TOTAL = re.compile(r"Self (\w+) time total: *(\S+) *$")
_SELF = re.compile(r"Self (?!CPU)([A-Z]\w*)$")
_MEMORY = re.compile(r"Mem(?:cpy|set)\b|Copy(?:Host|Device)\w*|Fill\w*Buffer")
# An operator's schema name: one namespace and a word. Kernels carry a type, arguments or no namespace at all.
_OP = re.compile(r"[A-Za-z_]\w*::[a-z_]\w*(?:\.\w+)?$")
_CALLS = "# of Calls"


def time_ns(text: str) -> tuple[int, int] | None:
    """(ns, how far off it may be) of a cell such as ``19.435ms``: half of its last digit."""
    found = _TIME.fullmatch(text.strip())
    if found is None:
        return None
    unit = _UNITS[found[3]]
    return round(float(found[1]) * unit), max(round(0.5 * unit / 10 ** len(found[2] or "")), 1)


@dataclass(frozen=True, slots=True)
class _Heading:
    """Columns in order. Their places in a line tell nothing: a heading that is wider than its column moves the rest."""

    names: tuple[str, ...]
    device: str

    def cells(self, line: str) -> dict[str, str]:
        """Cells by column; {} where the line has fewer than there are columns."""
        found = _GAP.split(line.strip())
        more = len(found) - len(self.names)
        if more < 0:
            return {}
        # blanks inside a name are all that can make cells of one
        return dict(zip(self.names, ["  ".join(found[: more + 1]), *found[more + 1 :]], strict=True))


@dataclass(slots=True)
class Tables:
    """Fed with lines in order, without log prefixes but with their leading spaces; holds the tables found.

    ``odd``: rows that no cell of times could be read of; ``cut``: tables without their last line of dashes.
    """

    file: int
    path: str
    rank: int | None
    found: list[KernelTable] = field(default_factory=list)
    odd: int = 0
    cut: int = 0
    _heading: _Heading | None = None
    _rows: list[KernelTableRow] = field(default_factory=list)
    _expects: str = ""

    def feed(self, line: str) -> bool:
        """Look at one line; whether it belongs to a table."""
        if _DASHES.match(line):
            self._dashes()
            return True
        if self._expects == "heading":
            self._begin(line)
            return self._heading is not None
        if self._expects == "rows":
            return self._row(line)
        total = _TOTAL.match(line.strip()) if self._expects == "totals" else None
        if total:
            self._total(total[1], time_ns(total[2]))
        elif line.strip():
            self._expects = ""
        return total is not None

    def end(self) -> None:
        """The input ends."""
        if self._expects == "rows" and self._rows:
            self.cut += 1
            self._keep()

    def _dashes(self) -> None:
        if self._expects == "rows" and self._rows:
            self._keep()
        elif self._expects != "dashes":
            self.end()
            self._expects, self._heading, self._rows = "heading", None, []
        else:
            self._expects = "rows"

    def _begin(self, line: str) -> None:
        names = tuple(_GAP.split(line.strip()))
        device = next((match[1] for name in names if (match := _SELF.match(name))), "")
        known = names[0] == "Name" and _CALLS in names and len(set(names)) == len(names)
        self._heading = _Heading(names, device) if known else None
        self._expects = "dashes" if known else ""

    def _row(self, line: str) -> bool:
        made = _row_of(line, self._heading) if self._heading else None
        if made is None:
            # a line of another program between the rows, or a row that is damaged
            self.odd += bool(line.strip())
        elif len(self._rows) < MOST_ROWS:
            self._rows.append(made)
        return made is not None

    def _keep(self) -> None:
        device = self._heading.device if self._heading else ""
        self.found.append(KernelTable(self.file, self.path, len(self.found), self.rank, device, tuple(self._rows)))
        self._rows, self._expects = [], "totals"

    def _total(self, word: str, time: tuple[int, int] | None) -> None:
        last = self.found[-1]
        host = time[0] if time and word == "CPU" else last.host_total_ns
        device = time[0] if time and word != "CPU" else last.device_total_ns
        self.found[-1] = KernelTable(last.file, last.path, last.index, last.rank, last.device, last.rows, device, host)


def _row_of(line: str, heading: _Heading) -> KernelTableRow | None:
    cells = heading.cells(line)
    name, calls = cells.get("Name", ""), cells.get(_CALLS, "")
    own = time_ns(cells.get(f"Self {heading.device}", "")) if heading.device else (0, 0)
    hosts = [time_ns(cells.get(column, "")) for column in ("Self CPU", "CPU total") if column in heading.names]
    if not name or own is None or None in hosts or not (calls.isascii() and calls.isdecimal()) or len(calls) > 15:
        return None
    spent = [host[0] for host in hosts if host]
    return KernelTableRow(
        name=name,
        calls=int(calls),
        self_ns=own[0],
        self_slack_ns=own[1],
        is_kernel=bool(own[0]) and not any(spent) and _is_kernel(name, by_name=not spent),
        cut=name.endswith("..."),
        self_cpu_ns=spent[0] if "Self CPU" in heading.names else None,
    )


def _is_kernel(name: str, *, by_name: bool) -> bool:
    """Device time without host time: a kernel, unless it is a copy, a fill or the device's twin of an annotation."""
    if _MEMORY.match(name) or name.startswith(PROFILER_STEP) or parse(name) is not None:
        return False
    return not (by_name and _OP.match(name))
