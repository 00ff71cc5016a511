"""Event by event through a window that does not decode as a whole: what is whole is kept, the rest counted."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass

from m3probe.readers.events import Event
from m3probe.readers.repair import BOUNDARY, Damage, event_from, object_end, value_end

_WHITE = b" \t\r\n,"
_CARRIED_BYTES = 8 * 2**20
"""An event that does not close in its window is tried again with the next one, up to this size."""


@dataclass(slots=True)
class Salvaged:
    """Events of one window; ``rest``: where its unfinished last event begins; ``ended``: after the list's ``]``, or -1."""

    events: list[Event]
    rest: int
    ended: int = -1
    truncated: bool = False


class Salvage:
    """Reads windows event by event.

    Args:
        damage: counts of the file, added to here.
        mark: told the place in the window of each event that was lost or repaired by guessing.
    """

    def __init__(self, damage: Damage, mark: Callable[[int], None]) -> None:
        self._damage = damage
        self._mark = mark
        # Looking for the end of a broken event reads on until braces balance by chance: with many broken
        # events that would be quadratic, so only so many bytes are looked through in vain.
        self._patience_bytes = 128 * 2**20

    def read(self, data: bytes, *, final: bool) -> Salvaged:
        """Everything in ``data`` that can be told apart.

        Args:
            final: nothing follows; an event that does not close is cut.
        """
        starts = [match.end() for match in BOUNDARY.finditer(data)]
        found = Salvaged([], len(data))
        at = 0
        while True:
            at = _skip(data, at)
            if at >= len(data):
                return found
            if data[at : at + 1] == b"]":
                found.ended = at + 1
                return found
            place = bisect_right(starts, at)
            following = starts[place] if place < len(starts) else -1
            if data[at : at + 1] == b"{":
                after = self._object(data, at, following, found, final=final)
            else:
                after = self._foreign(data, at, following)
            if after < 0:
                found.rest = at
                return found
            at = after

    def _object(self, data: bytes, at: int, following: int, found: Salvaged, *, final: bool) -> int:
        """Index after the event at ``at``; -1 to try it again with more data."""
        if following > 0 and self._take(data[at:following].rstrip(_WHITE), found):
            return following
        end = self._closing(data, at)
        if end > 0 and self._take(data[at:end], found):
            return end
        if end < 0 and not final and self._patience_bytes > 0 and len(data) - at < _CARRIED_BYTES:
            return -1
        stop = following if following > 0 else end if end > 0 else len(data)
        event = event_from(data[at:stop].rstrip(_WHITE), trial := Damage())
        self._damage.add(trial)
        self._mark(at)
        if event is not None:
            found.events.append(event)
        elif final and following < 0 and end < 0:
            found.truncated = True
        else:
            self._damage.lost += 1
        return stop

    def _take(self, piece: bytes, found: Salvaged) -> bool:
        """Keep the event of ``piece`` when nothing has to be guessed for it."""
        event = event_from(piece, trial := Damage())
        if event is None or trial.guessed:
            return False
        self._damage.add(trial)
        found.events.append(event)
        return True

    def _closing(self, data: bytes, at: int) -> int:
        if self._patience_bytes <= 0:
            return -1
        end = object_end(data, at, len(data))
        self._patience_bytes -= (end if end > 0 else len(data)) - at
        return end

    def _foreign(self, data: bytes, at: int, following: int) -> int:
        """Step over a value that is no object; a list that does not close takes all up to the next event."""
        stop = following if following > 0 else len(data)
        end = value_end(data, at, stop)
        self._damage.lost += 1
        self._mark(at)
        if end > at:
            return end
        return stop if data[at : at + 1] == b"[" else at + 1


def _skip(data: bytes, at: int) -> int:
    while at < len(data) and data[at] in _WHITE:
        at += 1
    return at
