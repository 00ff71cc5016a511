"""What a Chrome or Perfetto file that ``m3probe export`` wrote says of the recording behind it: a loss stays one when it is read again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from m3probe.model.recording import Note

MADE_BY = "m3probe export"


@dataclass(frozen=True, slots=True)
class Losses:
    """Of one file: events that were lost, and whether its tail was; ``said``: in words, empty where it was whole."""

    events: int = 0
    cut: bool = False
    said: str = ""


def losses(header: Mapping[str, Any]) -> Losses:
    """What the header says; nothing of a file that no export wrote."""
    told = header.get("m3probe")
    if not isinstance(told, dict) or told.get("made_by") != MADE_BY or told.get("outcome") != "partial":
        return Losses()
    lost, events = told.get("lost"), told.get("events_lost")
    first = str(lost[0])[:400] if isinstance(lost, list) and lost else "it does not say how"
    whole = isinstance(events, int) and not isinstance(events, bool) and 0 <= events < 2**62
    return Losses(events if whole and events is not None else 0, told.get("truncated") is True, first)


def notes(found: Losses, path: str) -> Iterator[Note]:
    """The loss as a note of the file that was read."""
    if found.said:
        text = f"exported from a recording that was not whole: {found.said}"
        yield Note("exported_partial", text, path, max(found.events, 1), lossy=True)
