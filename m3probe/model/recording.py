"""A recording: what was read, in typed columns, with what could be seen at all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from zlib import crc32

import numpy as np

from m3probe.model.bench import BenchRun
from m3probe.model.counter_tables import CounterHost
from m3probe.model.kernel_table import KernelTable
from m3probe.model.metric_tables import MetricsFile
from m3probe.model.model_config import ModelConfig
from m3probe.model.recipe_report import RecipeNote
from m3probe.model.served import Served
from m3probe.model.server_log import ServerLog
from m3probe.model.tables import GRAPH_LAUNCH, NONE, TABLES, Array, Table, empty_columns
from m3probe.schema.gates import GateFacts
from m3probe.schema.setup import Setup
from m3probe.schema.verdicts import Outcome

KERNEL_FREE = frozenset({"log", "bench", "summary", "metrics", "device", "counters"})
"""Roles of files without a record of a kernel on a time line: beside a trace they explain it, alone nothing says what ran.

Files of counters name dispatches, but those ran one at a time, and once for each pass."""


MOST_TEXT = 65_536
"""Characters of a name that are kept; CK's longest mangled names have some 10,000."""


MOST_RANKS = 2**20
"""No job has more; a larger number is damage, and unknown."""


LARGEST_WALL_NS = 2**62
"""Wall times end before 2116, and a clock and its offset still add up within int64: what is later is damage."""


def time_or_none(value_ns: int | None) -> int | None:
    """A wall time as a file states it; None where it cannot be one."""
    return value_ns if value_ns is not None and abs(value_ns) < LARGEST_WALL_NS else None


class Strings:
    """Text <-> id, one table for a whole recording; ``shortened`` counts texts that were too long to be kept whole."""

    __slots__ = ("_ids", "shortened", "texts")

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.shortened = 0
        self._ids: dict[str, int] = {}

    def intern(self, text: str) -> int:
        """The id of ``text``, new when it was not seen before; one beyond ``MOST_TEXT`` is cut, and stays apart."""
        if len(text) > MOST_TEXT:
            self.shortened += 1
            said = crc32(text.encode("utf-8", "surrogatepass"))
            text = f"{text[: MOST_TEXT - 64]}... ({len(text):,} characters, crc32 {said:08x})"
        found = self._ids.get(text)
        if found is None:
            found = self._ids[text] = len(self.texts)
            self.texts.append(text)
        return found

    def find(self, text: str) -> int:
        """The id of ``text``, or -1."""
        return self._ids.get(text, NONE)

    def __getitem__(self, index: int) -> str:
        """The text of an id; "" for -1."""
        return self.texts[index] if index >= 0 else ""

    def __len__(self) -> int:
        return len(self.texts)

    def of(self, ids: Iterable[int]) -> list[str]:
        """Texts of many ids, "" for -1."""
        return [self.texts[i] if i >= 0 else "" for i in ids]


class Dims:
    """Launch grids: distinct (x, y, z) <-> row; workgroups, not work-items."""

    __slots__ = ("_rows", "values")

    def __init__(self) -> None:
        self.values: list[tuple[int, ...]] = []
        self._rows: dict[tuple[int, ...], int] = {}

    def intern(self, value: tuple[int, ...]) -> int:
        """The row of ``value``, new when it was not seen before."""
        found = self._rows.get(value)
        if found is None:
            found = self._rows[value] = len(self.values)
            self.values.append(value)
        return found

    def __getitem__(self, index: int) -> tuple[int, ...]:
        return self.values[index]


@dataclass(frozen=True, slots=True)
class Note:
    """Something the user must be told about an input.

    ``lossy`` notes make the outcome ``partial``; the others ``ok_with_warnings``; ``quiet`` notes
    are facts about a sound input and change no outcome.
    """

    word: str
    text: str
    path: str = ""
    count: int = 1
    lossy: bool = False
    quiet: bool = False


@dataclass(frozen=True, slots=True)
class Device:
    """One accelerator as the trace describes it; a name may be empty (ROCm writes none)."""

    index: int
    name: str
    units: int
    compute_major: int
    compute_minor: int
    warp_size: int
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class EventCounts:
    """What one file held, counted while reading (words of the cases' README)."""

    events_x: int = 0
    gpu_annotations: int = 0
    annotation_gpu_span_ns: int = 0
    profiler_steps: int = 0
    non_finite_args: int = 0
    python_functions: int = 0
    lost_events: int = 0
    repaired_events: int = 0
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One input file and its role: ``rank``, ``frontend`` (API server), ``capture``, ``guest``, or
    one of ``KERNEL_FREE``.
    """

    path: str
    kind: str
    role: str
    rank: int | None
    world_size: int | None
    base_time_ns: int | None
    size_bytes: int
    counts: EventCounts
    in_folder: bool
    local_times: tuple[str, str] | None = None
    """First and last time as a file without a zone writes them: ``11-29 20:21:22``, or with its year before it."""
    pid: int | None = None
    """The process, where the format or the file's name tells it."""
    device: str = ""
    """Its device as the format labels it (``Agent 4``, ``GPU 3``, a handle), where it names one."""
    gpu: int | None = None
    """Number of that device among the GPUs that its process saw, where the format tells."""
    node: int | None = None
    """Number of that device among all processors of the host, where the format tells."""


@dataclass(frozen=True, slots=True)
class Meta:
    """What is known about the run: versions, devices, topology, model."""

    versions: Mapping[str, str] = field(default_factory=dict)
    devices: tuple[Device, ...] = ()
    backend: str = ""
    flags: Mapping[str, str] = field(default_factory=dict)
    model: ModelConfig | None = None
    tp: int | None = None
    ep: int | None = None
    served: tuple[Served, ...] = ()
    """What processes of a live recording said of their configuration."""
    logs: tuple[ServerLog, ...] = ()
    """What logs of the server say: configured and chosen, never executed."""
    bench: tuple[BenchRun, ...] = ()
    """Runs of a benchmark, as its client saw the server."""
    kernel_tables: tuple[KernelTable, ...] = ()
    """Totals per kernel that torch's profiler printed: sums, without a time line."""
    metrics: tuple[MetricsFile, ...] = ()
    """Files of metrics pages; their samples are in the tables ``scrapes`` and ``metrics``."""
    setup: Setup | None = None
    """The server's configuration, as the user gave it or as the server resolved it: what makes ``missed`` and
    ``declined`` of ``unproven``."""
    recipe: RecipeNote | None = None
    gates: GateFacts = field(default_factory=GateFacts)
    counter_hosts: tuple[CounterHost, ...] = ()
    """Devices as the files of counters describe them."""


@dataclass(frozen=True, slots=True, weakref_slot=True, repr=False)
class Recording:
    """All that was read. Analyzers never change it.

    Tables are numpy columns (``m3probe/model/tables.py`` has the unit and meaning of each); ``.df()`` gives a DataFrame.
    Times are int64 ns on the clock of their file.
    """

    meta: Meta
    files: tuple[SourceFile, ...]
    tables: Mapping[str, Table]
    strings: Strings
    dims: Dims
    notes: tuple[Note, ...]

    def __post_init__(self) -> None:
        for table in self.tables.values():
            table.texts, table.grids = self.strings.texts, self.dims.values

    def __repr__(self) -> str:
        files = ", ".join(file.path for file in self.files[:3])
        more = f" and {len(self.files) - 3:,} more" if len(self.files) > 3 else ""
        return f"<Recording of {files}{more}: {len(self.kernels):,} kernels, {len(self.steps):,} steps, {self.outcome}>"

    @property
    def steps(self) -> Table:
        """Steps: one model execution by the engine each."""
        return self.tables["steps"]

    @property
    def kernels(self) -> Table:
        """Device kernels (memcpy and memset are in ``transfers``)."""
        return self.tables["kernels"]

    @property
    def launches(self) -> Table:
        """Runtime and driver calls of the host."""
        return self.tables["launches"]

    @property
    def ops(self) -> Table:
        """Framework operators of the host."""
        return self.tables["ops"]

    @property
    def graphs(self) -> Table:
        """The census: kernels of captured graphs in launch order."""
        return self.tables["graphs"]

    @property
    def transfers(self) -> Table:
        """Copies and fills on the device's time line."""
        return self.tables["transfers"]

    @property
    def graph_launches(self) -> Array:
        """Mask over launches: replays of captured graphs."""
        found: Array = self.launches["kind"] == GRAPH_LAUNCH
        return found

    @property
    def unseen_replays(self) -> Array:
        """Mask over launches: replays with no kernel record and no census, so that nothing tells what ran."""
        unseen: Array = (self.launches["kernels"] == 0) & (self.launches["graph"] == NONE)
        return unseen & self.graph_launches

    @property
    def outcome(self) -> Outcome:
        """How reading ended, over all files."""
        if any(note.lossy for note in self.notes):
            return Outcome.PARTIAL
        if any(not note.quiet for note in self.notes):
            return Outcome.OK_WITH_WARNINGS
        return Outcome.OK

    @property
    def file_ranks(self) -> Array:
        """Rank of each file, int32 [files]; -1 where it is not known."""
        return np.array([NONE if f.rank is None else f.rank for f in self.files], dtype=np.int32)

    def names(self, table: str) -> list[str]:
        """Names of a table's rows as text."""
        return self.strings.of(self.tables[table]["name"].tolist())


class RecordingBuilder:
    """Readers add files and rows here; ``build`` checks and freezes them."""

    def __init__(self) -> None:
        self.strings = Strings()
        self.dims = Dims()
        self.files: list[SourceFile] = []
        self.notes: list[Note] = []
        self.meta = Meta()
        self._parts: dict[str, list[Table]] = {name: [] for name in TABLES}
        self._rows: dict[str, int] = dict.fromkeys(TABLES, 0)
        self.graphs_seen = 0
        self.offered: set[Path] = set()
        """Files that were named or found: a reader may join those of one process with the one that it is given."""
        self.joined: set[Path] = set()
        """Files that were read so and need not be read again."""

    def rows(self, table: str) -> int:
        """Rows that a table holds already: the offset of the next part's row references."""
        return self._rows[table]

    def add(self, table: str, columns: Mapping[str, Array]) -> None:
        """Append one file's rows; row references must be absolute (see ``rows``)."""
        part = Table(table, columns)
        self._parts[table].append(part)
        self._rows[table] += len(part)

    def note(self, notes: Iterable[Note]) -> None:
        """Remember what the user must be told."""
        self.notes.extend(notes)

    def build(self) -> Recording:
        """The finished recording."""
        return Recording(
            meta=self.meta,
            files=tuple(self.files),
            tables={name: _joined(name, parts) for name, parts in self._parts.items()},
            strings=self.strings,
            dims=self.dims,
            notes=tuple(self.notes),
        )


def _joined(name: str, parts: list[Table]) -> Table:
    if not parts:
        return Table(name, empty_columns(name))
    if len(parts) == 1:
        return parts[0]
    columns = [column.name for column in TABLES[name]]
    return Table(name, {key: np.concatenate([part[key] for part in parts]) for key in columns})
