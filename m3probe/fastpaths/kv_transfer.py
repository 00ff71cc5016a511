"""KV transfer between servers: MoRIIO, NIXL, LMCache. A correctness path first: it moves bytes that nothing checks.

Sources: vLLM PR 46039, 46290, 46332; ``kv_connector/factory.py`` and ``kv_connector/v1/moriio/`` at 0.24 to 0.33.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from m3probe.fastpaths._capture import layerwise
from m3probe.fastpaths._m3 import as_object, build_name, flag, no, unknown, yes
from m3probe.fastpaths.fp8_kv_cache import page_bytes
from m3probe.schema.paths import Anchor, Asked, Effect, FastPath, Need, Role, Variant, When
from m3probe.schema.setup import Held, Met, Point, Setup, met

ROLES = ("kv_producer", "kv_consumer", "kv_both")


def transfer(setup: Setup) -> Any:
    """The KV transfer config as an object."""
    return as_object(flag(setup, "kv-transfer-config"))


def connector(setup: Setup) -> str:
    """Name of the connector; empty without one."""
    return str(transfer(setup).get("kv_connector") or "")


def asked(setup: Setup) -> Asked:
    """--kv-transfer-config with a connector."""
    name = connector(setup)
    if not name:
        return Asked(Held.NO, "no --kv-transfer-config")
    return Asked(Held.YES, f"{name}, role {transfer(setup).get('kv_role') or 'not said'}")


def configs(config: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """A KV transfer config and, of a MultiConnector, its children: vLLM makes a KVTransferConfig of each."""
    yield config
    if config.get("kv_connector") == "MultiConnector":
        children = as_object(config.get("kv_connector_extra_config")).get("connectors")
        for child in children if isinstance(children, list) else ():
            yield from configs(as_object(child))


def _known(setup: Setup, _point: Point) -> Met:
    names, judged = setup.build.rule("kv_connectors").value, []
    for config in configs(transfer(setup)):
        name = str(config.get("kv_connector") or "")
        if config.get("kv_connector_module_path"):
            judged.append(yes(f"{name} is loaded from a module of its own"))
            continue
        is_in = name in names
        judged.append(met(is_in, f"{name} is {'' if is_in else 'not '}among the {len(names)} connectors of the build"))
    return next((answer for answer in judged if answer.held is Held.NO), judged[0])


def _role(setup: Setup, _point: Point) -> Met:
    """``KVTransferConfig.__post_init__`` (config/kv_transfer.py:96 at 0.24, :114 at 0.32 and 0.33) raises ValueError."""
    for config in configs(transfer(setup)):
        name, role = config.get("kv_connector"), config.get("kv_role")
        if role is None:
            return no(f"{name} without a kv_role ({', '.join(ROLES)}): the engine does not start (ValueError)")
        if role not in ROLES:
            return no(f"kv_role {role} of {name} is none of {', '.join(ROLES)}: the engine does not start (ValueError)")
    return yes(f"kv_role {transfer(setup).get('kv_role')}")


def _equal_pages(setup: Setup, _point: Point) -> Met:
    """0.32: MoRIIO raises where layers differ in page bytes and the hybrid cache manager is on, as it is by default."""
    if connector(setup) != "MoRIIOConnector":
        return yes("only MoRIIO compares pages")
    rule = setup.build.rule("moriio")
    if not rule.known:
        return unknown(f"rule moriio is {rule.status} on this build")
    if not (rule.value or {}).get("equal_pages_with_hma"):
        return yes(f"{build_name(setup)} moves each layer by its own geometry")
    if flag(setup, "disable-hybrid-kv-cache-manager"):
        return yes("--disable-hybrid-kv-cache-manager: pages may differ")
    return _compared(setup)


def _compared(setup: Setup) -> Met:
    pages = page_bytes(setup)
    if pages is None:
        return unknown("page bytes are not known")
    main, index = pages
    if main == index:
        return yes(f"main and index pages are both {main:,} B")
    return no(
        f"main page {main:,} B != index page {index:,} B: MoRIIO of {build_name(setup)} does not start with "
        "the hybrid KV cache manager; set --disable-hybrid-kv-cache-manager",
    )


def _graphs(setup: Setup, _point: Point) -> Met:
    said = (
        "LMCache layer-wise turns FULL graphs into PIECEWISE (path graph_replay)"
        if layerwise(transfer(setup))
        else "no say in graph modes"
    )
    return yes(said)


def _variant(name: str, source: str, note: str) -> Variant:
    return Variant(
        name,
        Role.FAST,
        (),
        calls_per_step="one transfer per layer and request",
        names_from_source=True,
        source=source,
        note=note,
    )


FAST_PATH = FastPath(
    title="KV transfer",
    question="Did KV arrive from another server, all of it, and was it used?",
    configured='--kv-transfer-config \'{"kv_connector": "MoRIIOConnector", "kv_role": ...}\'',
    default="off",
    needs=(
        Need("the connector exists in this build", _known, When.START, ("kv_connectors",)),
        Need("a role: kv_producer, kv_consumer or kv_both", _role, When.START),
        Need("MoRIIO of 0.32: equal pages in all layers, or no hybrid cache manager", _equal_pages, When.START),
        Need("the connector's say in graph modes", _graphs),
    ),
    variants=(
        _variant(
            "MoRIIO",
            "MoRIIOWrapper.write_remote_data, read_remote_data: the same signatures in all four builds",
            "no metrics of its own; it also silences AITER's logger, so AITER's lines prove nothing beside it",
        ),
        _variant("NIXL", "NixlKVConnectorStats.record_transfer", "bytes and durations in vLLM's metrics"),
        _variant("LMCache", "LMCacheConnectorV1.start_load_kv, save_kv_layer", "byte counts only inside LMCache"),
    ),
    # RDMA leaves no kernel; copies to the host are no proof of a transfer.
    counted_by=Anchor.NONE,
    asked=asked,
    instead="the server computes the prefill itself",
    gates=("kv_census", "write_order", "ack_fan_in", "kv_arrival", "eval_length", "eval_file"),
    effects=(
        Effect(
            "peak per GPU 2,085 -> 6,003 total tokens/s at 8k1k, another topology (12 GPUs, not 16)",
            "InferenceX PR 2144",
        ),
        Effect("GSM8K 0.0008 with healthy throughput when layer 0's geometry was taken for all", "vLLM PR 46039"),
    ),
    logs=(
        "MoRIIO registered %d attention layers with %d distinct block lengths (bytes): %s; ...",
        "KV Transfer metrics: ...",
    ),
    functions=("MoRIIOWriter.schedule_write, seal_pending_transfers, _finalize_if_complete",),
    sources=("vLLM PR 46039, 46290, 46332", "moriio_connector.py:2456 at 0.32"),
)
