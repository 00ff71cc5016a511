"""Facts of load and capture, kept in memory until somebody records: what a late recording could not see any more."""

from __future__ import annotations

import time

from m3probe.schema import records

MOST = 50_000


class Ledger:
    """Bounded; what does not fit is counted in ``lost``."""

    def __init__(self, most: int = MOST) -> None:
        self.lost = 0
        self.captured = 0
        """Descriptors among the facts."""
        self._most = most
        self._kept: list[records.AnyRecord] = []
        self._said: set[tuple[str, str]] = set()

    def keep(self, record: records.AnyRecord) -> None:
        """Keep one fact."""
        if len(self._kept) >= self._most:
            self.lost += 1
            return
        self._kept.append(record)
        self.captured += isinstance(record, records.Descriptor)

    def note(self, word: str, text: str, *, lossy: bool, about: str = "") -> records.Note | None:
        """A note that was not made before; ``about``: what makes it the same one, where its text varies."""
        key = (word, about or text)
        if key in self._said:
            return None
        self._said.add(key)
        return records.Note(word=word, text=text, lossy=lossy, mono_ns=time.monotonic_ns())

    def all(self) -> list[records.AnyRecord]:
        """Everything kept, in order."""
        return list(self._kept)
