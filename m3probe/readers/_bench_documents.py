"""Bytes of a benchmark's file -> its results, one JSON object each, with their values undecoded until they are asked for.

One object; a list of objects; objects one after the other, as ``--append-result`` writes them. A detailed result of
10,000 requests is some 200 MB, most of it texts that nothing here reads.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from m3probe.errors import UnreadableInput
from m3probe.readers.repair import UNDECODABLE, Damage, object_end, without_loss

MOST_RESULTS = 10_000
"""Of one file; a sweep holds some hundred."""
_ONE = msgspec.json.Decoder(dict[str, msgspec.Raw])
_MANY = msgspec.json.Decoder(list[dict[str, msgspec.Raw]])
_INFINITE_RATE = re.compile(rb'("request_rate"\s*:\s*)(?:[+]?Infinity|[+]?inf)\b')


@dataclass(frozen=True, slots=True)
class Result:
    """One result: its keys, and typed looks at their values. What is of another type is None: not said.

    ``negative``: keys that were asked for a number and hold one below 0; of the objects inside too, with their path.
    """

    values: dict[str, msgspec.Raw]
    negative: dict[str, float] = field(default_factory=dict)
    prefix: str = ""

    def any(self, key: str) -> Any:
        """The decoded value; None when there is none."""
        raw = self.values.get(key)
        try:
            return None if raw is None else msgspec.json.decode(raw)
        except UNDECODABLE:
            return None

    def number(self, *keys: str) -> float | None:
        """The first of ``keys`` that holds a finite number from 0; ``--metadata`` makes numbers texts."""
        for key in keys:
            found = finite(self.any(key))
            if found is not None and found >= 0:
                return found
            if found is not None:
                self.negative[self.prefix + key] = found
        return None

    def count(self, *keys: str) -> int | None:
        """The first of ``keys`` that holds a whole number from 0."""
        found = self.number(*keys)
        return int(found) if found is not None and found == int(found) else None

    def share(self, *keys: str) -> float | None:
        """The first of ``keys`` that holds a number, if that is one from 0 to 1."""
        found = self.number(*keys)
        return found if found is not None and found <= 1 else None

    def text(self, *keys: str) -> str:
        """The first of ``keys`` that holds a text that is not empty."""
        return next((found for key in keys if isinstance(found := self.any(key), str) and found), "")

    def inside(self, *path: str) -> Result:
        """The object below ``path``; an empty one where there is none."""
        found = self
        for key in path:
            raw = found.values.get(key, msgspec.Raw(b"{}"))
            try:
                found = Result(_ONE.decode(raw), self.negative, f"{found.prefix}{key}.")
            except UNDECODABLE:
                return Result({})
        return found

    def __contains__(self, key: str) -> bool:
        return key in self.values


def finite(value: Any) -> float | None:
    """``value`` as a finite number; a text that spells one is one."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return found if math.isfinite(found) and abs(found) < 2**63 else None


@dataclass(slots=True)
class Documents:
    """The results of one file; ``cut``: the last one ends in the middle; ``stray``: bytes that belong to none."""

    results: list[Result] = field(default_factory=list)
    damage: Damage = field(default_factory=Damage)
    cut: bool = False
    stray: int = 0


def documents(content: bytes, where: str) -> Documents:
    """Every result of ``content``, in order.

    Raises:
        UnreadableInput: none can be decoded, or there are too many.
    """
    damage = Damage()
    found = _sound(content)
    if found is None:
        # NaN and Infinity are what Python's json writes where nothing was measured
        repaired = without_loss(_INFINITE_RATE.sub(rb'\1"inf"', content), damage)
        found = _sound(repaired) or _salvaged(repaired)
    found.damage = damage
    if not found.results:
        raise UnreadableInput(
            "no whole JSON object in it" if found.cut else "the content is no benchmark result (a JSON object each)",
            where=where,
            next_move="Write it again: vllm bench serve --save-result",
        )
    if len(found.results) > MOST_RESULTS:
        raise UnreadableInput(
            f"{len(found.results):,} results in one file, more than {MOST_RESULTS:,}", where=where, next_move="Split it"
        )
    return found


def _sound(content: bytes) -> Documents | None:
    """Results of a file that decodes whole; None when it does not."""
    text = content.strip()
    try:
        if text[:1] == b"[":
            return Documents([Result(values) for values in _MANY.decode(text)])
        return Documents([Result(_ONE.decode(text))])
    except UNDECODABLE:
        pass
    try:
        return Documents([Result(_ONE.decode(line)) for line in text.split(b"\n") if line.strip()])
    except UNDECODABLE:
        return None


def _salvaged(content: bytes) -> Documents:
    """Whole objects at the top level, one after the other, whatever stands between them."""
    found = Documents()
    for piece in _objects(content, found):
        try:
            found.results.append(Result(_ONE.decode(piece)))
        except UNDECODABLE:
            found.stray += len(piece)
    return found


def _objects(content: bytes, found: Documents) -> Iterator[bytes]:
    at, end = 0, len(content)
    while (start := content.find(b"{", at)) >= 0:
        found.stray += len(content[at:start].strip(b" \t\r\n,[]"))
        at = object_end(content, start, end)
        if at < 0:
            found.cut = True
            return
        yield content[start:at]
    found.stray += len(content[at:].strip(b" \t\r\n,[]"))
