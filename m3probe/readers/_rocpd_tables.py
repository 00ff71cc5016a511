"""One set of rocpd's tables: what the rows of its large tables refer to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

import numpy as np

from m3probe.model.tables import NONE, Array
from m3probe.readers._sqlite_columns import ABSENT, Columns, Ids, in_int32, joined, or_else

_PLACE = ("pid", "tid", "agent_id", "queue_id", "stream_id")
_MOST_DEVICES = 4_096


class Tables:
    """Looks things up by id.

    Args:
        suffix: of every table's name, ``_<uuid>``; may be empty.
    """

    def __init__(self, columns: Columns, suffix: str) -> None:
        self.columns = columns
        self._suffix = suffix
        agents = columns.cells(
            self._name("rocpd_info_agent"), ("id", "absolute_index", "type_index"), ("type", "name", "product_name")
        )
        self.gpus = [agent for agent in agents if agent["type"] == "GPU" and agent["id"] is not None]
        self.numbers = self._numbered()
        ids = np.array([*self.numbers], dtype=np.int64)
        self._gpu = Ids(ids, device=np.array([*self.numbers.values()], dtype=np.int64))
        processes = columns.cells(self._name("rocpd_info_process"), ("id", "pid"))
        self._pids: dict[int, int] = {said["id"]: said["pid"] for said in processes if said["pid"] is not None}

    def _name(self, table: str) -> str:
        return table + self._suffix

    def most_rows(self, table: str) -> int:
        """Rows there may be at most."""
        name = self._name(table)
        return self.columns.db.most_rows(name, len(self.columns.db.tables[name])) if self.has(table) else 0

    def has(self, table: str) -> bool:
        """Whether the set has this table."""
        return self._name(table) in self.columns.db.tables

    def _numbered(self) -> dict[int, int]:
        """GPU agent -> its number among GPUs, as written where that tells them apart, else in order of their ids."""
        said = {agent["id"]: agent["type_index"] for agent in self.gpus}
        sound = all(index is not None and 0 <= index < _MOST_DEVICES for index in said.values())
        if sound and len(set(said.values())) == len(said):
            return said
        return {agent: number for number, agent in enumerate(sorted(said))}

    def labels(self) -> dict[int, str]:
        """Device -> as rocprofv3's CSV names it."""
        return {
            self.numbers[agent["id"]]: f"Agent {agent['absolute_index']}"
            for agent in self.gpus
            if agent["absolute_index"] is not None
        }

    def pid(self, key: int) -> int:
        """The system's number of a process; a row that no process has keeps its own."""
        return self._pids.get(key, key)

    def gpu(self, agents: Array) -> Array:
        """Number of each GPU agent; -1 for a CPU or an agent that is not listed."""
        return self._gpu.of("device", agents)

    def device(self, agents: Array) -> Array:
        """The same for a dispatch, which can only run on a GPU: an agent that is not listed comes after those."""
        behind = max(self.numbers.values(), default=-1) + 1
        return self._gpu.of("device", agents, in_int32(agents) + behind)

    @cached_property
    def _events(self) -> Ids:
        blocks = (
            {
                "id": block["id"],
                "stack_id": block["stack_id"],
                "category_id": in_int32(block["category_id"]).astype(np.int32),
            }
            for block in self.columns.blocks(self._name("rocpd_event"), ("id", "stack_id", "category_id"))
        )
        names = ("id", "stack_id", "category_id")
        return Ids(**_by_ids(joined(blocks, names, self.most_rows("rocpd_event"))))

    def correlation(self, events: Array) -> Array:
        """Correlation of each event, 0 where none is known."""
        return or_else(self._events.of("stack_id", events, 0), 0)

    def category(self, events: Array) -> Array:
        """Category of each event; -1: not known."""
        return self._events.of("category_id", events)

    @cached_property
    def _times(self) -> Ids:
        return Ids(**_by_ids(self.columns.whole(self._name("rocpd_timestamp"), ("id", "value"))))

    @cached_property
    def _tracks(self) -> Ids:
        return Ids(**_by_ids(self.columns.whole(self._name("rocpd_track"), ("id", *_PLACE))))

    @cached_property
    def _threads(self) -> Ids:
        return Ids(**_by_ids(self.columns.whole(self._name("rocpd_info_thread"), ("id", "tid"))))

    def placed(self, table: str, names: Sequence[str]) -> Iterator[dict[str, Array]]:
        """Blocks of a table with ``start end pid tid agent_id queue_id stream_id``, wherever they stand."""
        name = self._name(table)
        there = self.columns.db.tables.get(name, {})
        own = [column for column in _PLACE if column in there]
        times = ("start", "end") if "start" in there else ("start_id", "end_id")
        tracked = "track_id" in there
        asked = (*names, *own, *times, *(("track_id",) if tracked else ()))
        for block in self.columns.blocks(name, asked):
            if times[0] != "start":
                block["start"], block["end"] = (self._times.of("value", block[time], ABSENT) for time in times)
            row = self._tracks.rows(block["track_id"]) if tracked else np.full(len(block["start"]), NONE)
            for column in _PLACE:
                if column not in block:
                    block[column] = self._tracks.take(column, row, ABSENT) if tracked else np.full(len(row), ABSENT)
            block["tid"] = self._threads.of("tid", block["tid"], block["tid"])
            yield block

    def texts(self, table: str, text: str, wanted: Iterable[int]) -> dict[int, str]:
        """id -> text."""
        return self.columns.texts(self._name(table), "id", text, wanted)

    def categories(self) -> dict[int, str]:
        """Category -> its word (``HIP_RUNTIME_API_EXT``); from version 4.1 in a table of their own."""
        if self.has("rocpd_info_category"):
            return self.columns.texts(self._name("rocpd_info_category"), "id", "name")
        wanted = np.unique(self._events.column("category_id")).tolist()
        return self.texts("rocpd_string", "string", wanted)

    def versions(self) -> dict[str, str]:
        """What the file says of itself."""
        said = self.columns.cells(self._name("rocpd_metadata"), (), ("tag", "value"))
        told = [row["value"][:64] for row in said if row["tag"] == "schema_version"]
        return {"rocpd_schema": told[-1]} if told else {}


def _by_ids(columns: dict[str, Array]) -> dict[str, Array]:
    columns["ids"] = columns.pop("id")
    return columns
