"""A worker's side of the KV connector: caches registered, loads and saves with their bytes where somebody knows them.

Who knows: MoRIIO's transfer calls and NIXL's telemetry have bytes; the example connector's metadata has tokens. For other
connectors (LMCache, offloading) calls and time are counted, and bytes stay -1.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from m3probe.collectors._bytes_kv_sum import Seen, summed
from m3probe.collectors._bytes_moriio import Acks, Writes, transfer_bytes
from m3probe.collectors._patch import around
from m3probe.schema import records

if TYPE_CHECKING:
    from m3probe.collectors._probe import Probe

_STATE = "vllm.distributed.kv_transfer.kv_transfer_state"
MOST_QUEUED = 100_000


class WorkerKv:
    """Hooks on the connector object of this process, whatever its class is; parts of a MultiConnector one by one."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._seen: deque[Seen] = deque()
        self._writes, self._acks = Writes(), Acks()

    def watch_made(self) -> None:
        """See the connector being made, and then what it registers: between loading and warm-up."""

        def after(_token: Any, connector: Any, *_args: Any, **_kwargs: Any) -> None:
            for part in parts(connector):
                self._hook("kv_register", part, after=self._registered(part))

        self._probe.hook_when_loaded("kv_made", around(self._probe.patches, "kv_made", after=after))

    def made(self) -> None:
        """Registration is over."""
        self._probe.unhook("kv_made", "kv_register")

    def watch(self) -> None:
        """Count loads and saves from now on; nothing where this process has no connector."""
        connector = getattr(sys.modules.get(_STATE), "_KV_CONNECTOR_AGENT", None)
        for part in parts(connector):
            self._hook("kv_load", part, before=_clock, after=self._loaded(part))
            self._hook("kv_wait_save", part, before=_clock, after=self._waited(part))
            self._hook("kv_finished", part, after=self._finished(part))
            if _tells_tokens(part):  # one call per layer and step: only where it says something
                self._hook("kv_save", part, after=self._saved(part))
        names = {type(part).__name__ for part in parts(connector)}
        if any("Nixl" in name for name in names):
            self._class_hook("kv_nixl_transfer", self._nixl)
        if any("MoRIIO" in name for name in names):
            for seam in ("kv_moriio_write", "kv_moriio_write_one"):
                self._class_hook(seam, self._moriio(seam, "save"))
            self._class_hook("kv_moriio_read", self._moriio("kv_moriio_read", "load"))
            self._writes.watch(self._probe)
            self._acks.watch(self._probe)

    def drain(self) -> Iterator[records.AnyRecord]:
        """Sums since the last time."""
        yield from summed([self._seen.popleft() for _ in range(len(self._seen))])
        yield from self._writes.drain()
        yield from self._acks.drain()

    # -- hooks: what ``after`` gets has no ``self`` where an instance is wrapped ----------------------------------

    def _registered(self, part: Any) -> Any:
        def after(_token: Any, _result: Any, kv_caches: dict[str, Any]) -> None:
            for layer, cache in kv_caches.items():
                size = getattr(cache, "nbytes", -1)
                self._probe.ledger(
                    records.KvTransfer(
                        connector=type(part).__name__,
                        direction="register",
                        seam="kv_register",
                        layer=layer,
                        payload_bytes=size,
                    )
                )

        return after

    def _loaded(self, part: Any) -> Any:
        sizes = bytes_per_token(part) if _tells_tokens(part) else {}

        def after(started: int | None, _result: Any, forward_context: Any, **_kwargs: Any) -> None:
            tokens = requests = size = -1
            if _tells_tokens(part):
                moved = [] if forward_context.attn_metadata is None else _moved(part, store=False)
                tokens, requests = sum(moved), len(moved)
                size = tokens * sum(sizes.values()) if sizes else -1
            self._put(Seen(type(part).__name__, "load", "kv_load", "", size, tokens, requests, _since(started)))

        return after

    def _saved(self, part: Any) -> Any:
        sizes = bytes_per_token(part)

        def after(_token: Any, _result: Any, layer_name: str, *_args: Any, **_kwargs: Any) -> None:
            moved = _moved(part, store=True)
            if moved:
                tokens = sum(moved)
                size = tokens * sizes[layer_name] if layer_name in sizes else -1
                self._put(Seen(type(part).__name__, "save", "kv_save", layer_name, size, tokens, len(moved), -1))

        return after

    def _waited(self, part: Any) -> Any:
        def after(started: int | None, *_rest: Any, **_kwargs: Any) -> None:
            self._put(Seen(type(part).__name__, "save", "kv_wait_save", "", -1, -1, -1, _since(started)))

        return after

    def _finished(self, part: Any) -> Any:
        def after(_token: Any, result: Any, *_args: Any, **_kwargs: Any) -> None:
            done = sum(len(ids) for ids in result or () if ids)
            if done:
                self._put(Seen(type(part).__name__, "finish", "kv_finished", "", -1, -1, done, -1))

        return after

    def _nixl(self, _token: Any, _result: Any, _stats: Any, res: Any) -> None:
        if res is not None:  # a worker that pulls reads; with the push variant its peer tells the same bytes
            took = round(res.xferDuration * 1_000)  # from us
            self._put(Seen("NixlConnector", "load", "kv_nixl_transfer", "", int(res.totalBytes), -1, -1, took))

    def _moriio(self, seam: str, direction: str) -> Any:
        def after(
            _token: Any, _result: Any, _wrapper: Any, transfer_size_byte: Any, *_args: Any, **_kwargs: Any
        ) -> None:
            self._put(Seen("MoRIIOConnector", direction, seam, "", transfer_bytes(transfer_size_byte), -1, -1, -1))

        return after

    def _put(self, seen: Seen) -> None:
        if len(self._seen) < MOST_QUEUED:
            self._seen.append(seen)
        else:
            self._probe.note("queue_full", "KV transfers: more calls in a second than are kept", lossy=True)

    def _hook(self, seam: str, owner: Any, before: Any = None, after: Any = None) -> None:
        self._probe.hook(seam, around(self._probe.patches, seam, before=before, after=after, traced=True), owner=owner)

    def _class_hook(self, seam: str, after: Any) -> None:
        self._probe.hook(seam, around(self._probe.patches, seam, after=after))


def parts(connector: Any) -> list[Any]:
    """The connectors that move something: those inside of a MultiConnector instead of itself."""
    if connector is None:
        return []
    inner = getattr(connector, "_connectors", None)
    return [leaf for one in inner for leaf in parts(one)] if isinstance(inner, list) else [connector]


def bytes_per_token(connector: Any) -> dict[str, int]:
    """Bytes of one token's cache by layer, from the specification that the connector was made with."""
    found: dict[str, int] = {}
    for group in getattr(getattr(connector, "_kv_cache_config", None), "kv_cache_groups", None) or ():
        spec = group.kv_cache_spec
        own = getattr(spec, "kv_cache_specs", None) or {}
        for layer in group.layer_names:
            of_layer = own.get(layer, spec)
            size = getattr(of_layer, "real_page_size_bytes", None) or of_layer.page_size_bytes
            found[layer] = size // of_layer.block_size
    return found


def _tells_tokens(connector: Any) -> bool:
    return any(base.__name__ == "ExampleConnector" for base in type(connector).__mro__)


def _moved(connector: Any, *, store: bool) -> list[int]:
    """Tokens of each request that this step saves (or loads)."""
    requests = getattr(getattr(connector, "_connector_metadata", None), "requests", None) or ()
    return [len(request.slot_mapping) for request in requests if request.is_store is store]


def _clock(*_args: Any, **_kwargs: Any) -> int:
    return time.perf_counter_ns()


def _since(started: int | None) -> int:
    return time.perf_counter_ns() - started if started is not None else -1
