"""Our own recordings: frames of records of every kind, sound ones, well-typed ones that cannot be, and damaged ones."""

from __future__ import annotations

import struct
import zlib
from typing import Any, get_args

import msgspec
import recording_kit as kit
from fuzz import damage
from fuzz.harness import Format, Sample, examine
from hypothesis import strategies as some
from hypothesis.strategies import DrawFn, SearchStrategy
from msgspec import inspect

from m3probe.schema import records
from m3probe.schema.frames import MAGIC, frame, packed

INTS = (0, 1, 2, 3, 64, -1, 2**31, 2**32, 2**53 + 1, 2**62, 2**63 - 1, -(2**63))
KINDS: tuple[type[records.Record], ...] = get_args(records.AnyRecord)
REST = some.none() | some.sampled_from(INTS) | damage.texts | some.sampled_from((0.5, [], {}, [1, "x"], {"a": 1}))


PLAIN: dict[type, SearchStrategy[Any]] = {
    inspect.IntType: some.sampled_from(INTS) | some.integers(0, 9),
    inspect.FloatType: some.sampled_from(damage.FLOATS) | some.floats(0, 9),
    inspect.StrType: damage.texts.filter(lambda text: "\ud800" not in text),
    inspect.BoolType: some.booleans(),
    inspect.NoneType: some.none(),
}


def of_type(kind: Any) -> SearchStrategy[Any]:
    """Values that a decoder of this type takes, likely or not."""
    found = PLAIN.get(type(kind), REST)
    if isinstance(kind, inspect.EnumType):
        found = some.sampled_from([member.value for member in kind.cls])
    elif isinstance(kind, inspect.ListType | inspect.VarTupleType):
        found = some.lists(of_type(kind.item_type), max_size=3)
    elif isinstance(kind, inspect.TupleType):
        found = some.tuples(*map(of_type, kind.item_types))
    elif isinstance(kind, inspect.DictType):
        found = some.dictionaries(of_type(kind.key_type), of_type(kind.value_type), max_size=3)
    elif isinstance(kind, inspect.UnionType):
        found = some.one_of(*map(of_type, kind.types))
    elif isinstance(kind, inspect.StructType):
        found = some.fixed_dictionaries({field.encode_name: of_type(field.type) for field in kind.fields})
        if kind.array_like:
            found = found.map(lambda values: list(values.values()))
        elif kind.tag is not None:
            found = found.map(lambda values: {str(kind.tag_field): kind.tag, **values})
    return found


wild: SearchStrategy[Any] = some.one_of(*(of_type(inspect.type_info(kind)) for kind in KINDS))
"""A record of any kind as the tree that is encoded, each field of its type."""


def framed(payload: bytes) -> bytes:
    """A sound frame around anything."""
    return struct.pack("<II", len(payload), zlib.crc32(payload)) + payload


def encoded(tree: Any) -> bytes:
    """As msgpack, if it can be: an integer beyond 64 bits or half a surrogate pair cannot."""
    try:
        return msgspec.msgpack.encode(tree)
    except (OverflowError, UnicodeEncodeError, msgspec.MsgspecError):
        return b"\xc0"


@some.composite
def sound(draw: DrawFn) -> Sample:
    """A worker's steps, as it writes them."""
    counts = draw(some.lists(some.tuples(some.integers(1, 10**6), some.integers(1, 64)), min_size=1, max_size=6))
    found = [kit.process(), *(kit.steps(kit.count(steps=n, rows=rows)) for n, rows in counts), kit.end()]
    frames = [frame(record) for record in found]

    def also(rec: Any) -> None:
        table = rec.tables["step_counts"]
        assert list(zip(table["count"].tolist(), table["rows_sum"].tolist(), strict=True)) == [
            (n, n * rows) for n, rows in counts
        ]
        assert not rec.files[0].counts.truncated

    body = b"".join(frames)
    return Sample({"worker.m3p": MAGIC + (packed(body) if draw(some.booleans()) else body)}, also=also)


@some.composite
def damaged(draw: DrawFn) -> Sample:
    """Records that cannot be, behind a process record that can; or files that are not whole."""
    trees = draw(some.lists(wild, max_size=6))
    if draw(some.booleans()):
        trees = [draw(damage.spoilt_tree(tree)) if draw(some.booleans()) else tree for tree in map(plain, trees)]
    frames = [frame(kit.process(rank=draw(some.sampled_from(INTS)))), *(framed(encoded(tree)) for tree in trees)]
    frames.append(frame(kit.steps(kit.count(steps=4, rows=2))))
    if not draw(some.integers(0, 3)):
        frames = draw(some.permutations(frames))
    body = b"".join(frames)
    body = packed(body) if draw(some.booleans()) else body
    if not draw(some.integers(0, 2)):
        return Sample({"worker.m3p": draw(damage.spoilt_bytes(MAGIC + body))})
    files = {"a.m3p": MAGIC + body, "b.m3p": MAGIC + frame(kit.process(rank=1)) + draw(damage.spoilt_bytes(body))}
    return Sample(files, folder=draw(some.booleans()))


def plain(tree: Any) -> Any:
    """Without what JSON has no word for (nor for half a surrogate pair), so that damage can be done to it."""
    try:
        return msgspec.json.decode(msgspec.json.encode(tree))
    except UnicodeEncodeError:
        return {}


FORMAT = Format("guest_recording", sound() | damaged() | damaged(), examine)
