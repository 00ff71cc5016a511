"""KV connectors: bytes are tokens times bytes per token, each transfer counted at each of its seams, hooks leave nothing."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from m3probe.collectors._bytes_kv import WorkerKv, bytes_per_token, parts
from m3probe.collectors._bytes_kv_engine import EngineKv
from m3probe.collectors._bytes_kv_sum import Seen, summed
from m3probe.collectors._bytes_moriio import MOST_TOLD, transfer_bytes
from m3probe.collectors._probe import Probe
from m3probe.gates import ack_fan_in
from m3probe.schema import gates, records
from m3probe.schema.roles import Level, Role

V1 = "vllm.distributed.kv_transfer.kv_connector.v1"
LAYERS = ("model.layers.0.self_attn.attn", "model.layers.1.self_attn.attn")
# 2 (K and V) x 2 heads x 64 x 4 B = 1,024 B a token and layer
PAGE = 32 * 1024


class Base:
    """Stands for KVConnectorBase_V1."""

    def __init__(self) -> None:
        spec = SimpleNamespace(page_size_bytes=PAGE, block_size=32)
        groups = [SimpleNamespace(kv_cache_spec=spec, layer_names=LAYERS)]
        self._kv_cache_config = SimpleNamespace(kv_cache_groups=groups)
        self._connector_metadata: Any = None

    def register_kv_caches(self, kv_caches: dict[str, Any]) -> None: ...

    def start_load_kv(self, forward_context: Any, **kwargs: Any) -> None: ...

    def save_kv_layer(self, layer_name: str, kv_layer: Any, attn_metadata: Any) -> None: ...

    def wait_for_save(self) -> None: ...

    def get_finished(self, finished_req_ids: set[str]) -> tuple[set[str] | None, set[str] | None]:
        return finished_req_ids or None, None

    def update_state_after_alloc(self, request: Any, blocks: Any, num_external_tokens: int) -> None: ...


class ExampleConnector(Base):
    def start_load_kv(self, forward_context: Any, **kwargs: Any) -> None: ...


class LMCacheConnectorV1(Base):
    pass


class MultiConnector(Base):
    def __init__(self, *inner: Base) -> None:
        super().__init__()
        self._connectors = list(inner)


class Writer:
    """Stands for MoRIIOWriter: the last write that is done notifies the consumer."""

    def schedule_write(self, task: Any) -> bool:
        return bool(task.new)

    def _finalize_if_complete(self, transfer_id: str, request_info: Any) -> None:
        if request_info.writes_expected is not None and request_info.writes_done >= request_info.writes_expected:
            request_info.completion_notified = True


class Wrapper:
    def write_remote_data(self, transfer_size_byte: Any, local_offset: int = 0) -> str:
        return "status"

    def write_remote_data_single(self, transfer_size_byte: int, local_offset: int = 0) -> str:
        return "status"

    def read_remote_data(self, transfer_size_byte: Any, local_offset: int = 0) -> str:
        return "status"


class MoRIIOConnector(Base):
    pass


class Scheduler:
    def __init__(self, connector: Base) -> None:
        self.connector, self.requests = connector, {"a": 1, "b": 1, "c": 1}

    def schedule(self) -> Any:
        return self.output

    def _update_from_kv_xfer_finished(self, kv_connector_output: Any) -> None: ...

    output: Any = None


class Guest(Probe):
    """A probe whose records stay in a list."""

    def __init__(self) -> None:
        super().__init__(Level.LEDGER)
        self.kept: list[records.AnyRecord] = []
        self.engine: Any = None
        self.worker: Any = None

    def host(self, role: Role) -> Any:
        return self.engine if role is Role.ENGINE else self.worker

    def ledger(self, record: records.AnyRecord) -> None:
        self.kept.append(record)

    def transfers(self) -> list[records.KvTransfer]:
        return [record for record in self.kept if isinstance(record, records.KvTransfer)]


def module(monkeypatch: pytest.MonkeyPatch, name: str, **members: Any) -> ModuleType:
    made = ModuleType(name)
    made.__dict__.update(members)
    monkeypatch.setitem(sys.modules, name, made)
    return made


@pytest.fixture
def guest(monkeypatch: pytest.MonkeyPatch) -> Guest:
    module(monkeypatch, "torch.compiler", is_compiling=lambda: False)
    module(monkeypatch, f"{V1}.base", KVConnectorBase_V1=Base)
    module(monkeypatch, f"{V1}.moriio.moriio_engine", MoRIIOWriter=Writer, MoRIIOWrapper=Wrapper)
    module(monkeypatch, "vllm.v1.core.sched.scheduler", Scheduler=Scheduler)
    return Guest()


def worker(guest: Guest, monkeypatch: pytest.MonkeyPatch, connector: Base | None) -> WorkerKv:
    module(monkeypatch, "vllm.distributed.kv_transfer.kv_transfer_state", _KV_CONNECTOR_AGENT=connector)
    made = WorkerKv(guest)
    made.watch()
    return made


def moving(*tokens: int, store: bool) -> Any:
    return SimpleNamespace(requests=[SimpleNamespace(slot_mapping=[0] * n, is_store=store) for n in tokens])


def by_seam(made: WorkerKv | EngineKv) -> dict[tuple[str, str], tuple[int, int, int, int]]:
    found = [r for r in made.drain() if isinstance(r, records.KvTransfer)]
    return {(r.seam, r.layer): (r.payload_bytes, r.tokens, r.requests, r.count) for r in found}


def test_the_example_connectors_bytes_are_tokens_times_bytes_of_a_token(
    guest: Guest, monkeypatch: pytest.MonkeyPatch
) -> None:
    connector = ExampleConnector()
    made = worker(guest, monkeypatch, connector)
    connector._connector_metadata = moving(96, 64, store=True)
    for layer in LAYERS:
        connector.save_kv_layer(layer, None, None)
    connector.wait_for_save()
    found = by_seam(made)
    assert {layer: found["kv_save", layer] for layer in LAYERS} == dict.fromkeys(LAYERS, (160 * 1024, 160, 2, 1))
    assert found["kv_wait_save", ""] == (-1, -1, -1, 1)

    connector._connector_metadata = moving(96, store=False)
    connector.start_load_kv(SimpleNamespace(attn_metadata={}))
    connector.save_kv_layer(LAYERS[0], None, None)
    assert by_seam(made) == {("kv_load", ""): (96 * 1024 * 2, 96, 1, 1)}


def test_a_load_without_attention_metadata_moves_nothing(guest: Guest, monkeypatch: pytest.MonkeyPatch) -> None:
    connector = ExampleConnector()
    made = worker(guest, monkeypatch, connector)
    connector._connector_metadata = moving(96, store=False)
    connector.start_load_kv(SimpleNamespace(attn_metadata=None))
    assert by_seam(made) == {("kv_load", ""): (0, 0, 0, 1)}


def test_a_connector_that_tells_no_bytes_has_unknown_ones(guest: Guest, monkeypatch: pytest.MonkeyPatch) -> None:
    connector = LMCacheConnectorV1()
    made = worker(guest, monkeypatch, connector)
    connector.start_load_kv(SimpleNamespace(attn_metadata={}))
    connector.start_load_kv(SimpleNamespace(attn_metadata={}))
    connector.save_kv_layer(LAYERS[0], None, None)
    assert connector.get_finished({"a", "b"}) == ({"a", "b"}, None)
    connector.get_finished(set())
    assert by_seam(made) == {("kv_load", ""): (-1, -1, -1, 2), ("kv_finished", ""): (-1, -1, 2, 1)}


def test_hooks_stand_on_the_object_and_leave_it_as_it_was(guest: Guest, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = ExampleConnector(), LMCacheConnectorV1()
    before = dict(vars(one)), dict(vars(Base)), dict(vars(ExampleConnector))
    worker(guest, monkeypatch, MultiConnector(one, MultiConnector(other)))
    assert set(vars(one)) - set(before[0]) == {"start_load_kv", "save_kv_layer", "wait_for_save", "get_finished"}
    assert {seam.state for seam in guest.seams.values()} == {"present"}
    assert guest.patches.undo() == ()
    assert (dict(vars(one)), dict(vars(Base)), dict(vars(ExampleConnector))) == before
    assert parts(MultiConnector(one, MultiConnector(other))) == [one, other]


def test_a_process_without_connector_gets_no_hook(guest: Guest, monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(worker(guest, monkeypatch, None).drain()) == []
    assert guest.patches.standing == []


def test_registered_caches_go_into_the_ledger_layer_by_layer(guest: Guest, monkeypatch: pytest.MonkeyPatch) -> None:
    class KVConnectorFactory:
        @classmethod
        def create_connector(cls, config: Any, role: Any, kv_cache_config: Any) -> Base:
            return ExampleConnector()

    module(monkeypatch, "vllm.distributed.kv_transfer.kv_connector.factory", KVConnectorFactory=KVConnectorFactory)
    made = WorkerKv(guest)
    made.watch_made()
    KVConnectorFactory.create_connector(None, None, None).register_kv_caches(
        {layer: SimpleNamespace(nbytes=200 * PAGE) for layer in LAYERS}
    )
    found = [(t.direction, t.layer, t.payload_bytes) for t in guest.transfers()]
    assert found == [("register", layer, 200 * 32_768) for layer in LAYERS]
    made.made()
    assert guest.patches.standing == []
    assert "create_connector" in vars(KVConnectorFactory)


def test_bytes_of_a_token_come_from_each_layers_own_specification() -> None:
    main = SimpleNamespace(page_size_bytes=65_536, block_size=128)
    index = SimpleNamespace(page_size_bytes=40_960, real_page_size_bytes=32_768, block_size=128)
    uniform = SimpleNamespace(kv_cache_specs={"a": main, "a.index": index})
    group = SimpleNamespace(kv_cache_spec=uniform, layer_names=("a", "a.index"))
    connector = SimpleNamespace(_kv_cache_config=SimpleNamespace(kv_cache_groups=[group]))
    assert bytes_per_token(connector) == {"a": 512, "a.index": 256}
    assert bytes_per_token(SimpleNamespace()) == {}


def test_moriio_bytes_are_the_sizes_of_its_transfers(guest: Guest, monkeypatch: pytest.MonkeyPatch) -> None:
    made = worker(guest, monkeypatch, MoRIIOConnector())
    wrapper = Wrapper()
    wrapper.write_remote_data([32_768, 32_768, 16_384], 0)
    wrapper.write_remote_data_single(4_096)
    wrapper.read_remote_data((1_000, 24))
    assert by_seam(made) == {
        ("kv_moriio_write", ""): (81_920, -1, -1, 1),
        ("kv_moriio_write_one", ""): (4_096, -1, -1, 1),
        ("kv_moriio_read", ""): (1_024, -1, -1, 1),
    }
    assert transfer_bytes(7) == 7


def written(made: WorkerKv) -> list[gates.Writes]:
    found = [r for r in made.drain() if isinstance(r, records.Gate)]
    return [write for r in found for write in r.facts.writes or ()]


def test_writes_of_a_transfer_are_told_when_its_blocks_may_be_freed(
    guest: Guest, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, writer = worker(guest, monkeypatch, MoRIIOConnector()), Writer()
    for new in (True, True, False, True):  # one layer was scheduled already
        writer.schedule_write(SimpleNamespace(transfer_id="tx", new=new))
    info = SimpleNamespace(writes_expected=None, writes_done=0, completion_notified=False)
    writer._finalize_if_complete("tx", info)
    info.writes_expected = 3
    for info.writes_done in (1, 2):
        writer._finalize_if_complete("tx", info)
        assert written(made) == []
    info.writes_done = 3
    writer._finalize_if_complete("tx", info)
    writer._finalize_if_complete("tx", info)
    assert written(made) == [gates.Writes(request="tx", scheduled=3, sealed=3, completed=3, freed=True)]


def test_a_transfer_that_was_scheduled_before_recording_is_left_out(
    guest: Guest, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = worker(guest, monkeypatch, MoRIIOConnector())
    Writer()._finalize_if_complete("old", SimpleNamespace(writes_expected=5, writes_done=5, completion_notified=False))
    assert written(made) == []


def test_too_many_ended_transfers_are_cut_and_said(guest: Guest, monkeypatch: pytest.MonkeyPatch) -> None:
    made, writer = worker(guest, monkeypatch, MoRIIOConnector()), Writer()
    for n in range(MOST_TOLD + 1):
        writer.schedule_write(SimpleNamespace(transfer_id=n, new=True))
        info = SimpleNamespace(writes_expected=1, writes_done=1, completion_notified=False)
        writer._finalize_if_complete(str(n), info)
    assert len(written(made)) == MOST_TOLD
    assert [(r.word, r.lossy) for r in guest.kept if isinstance(r, records.Note)] == [("writes_not_told", True)]


def test_acknowledgements_are_counted_until_the_transfer_is_freed(
    guest: Guest, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts: dict[str, int] = {}
    freed: set[str] = set()

    def resolve_moriio_transfer_ack(
        ack: Any,
        producer_tp_size: int,
        live_transfer_ids: Any,
        notification_counts: dict[str, int],
        completed_transfer_ids: set[str],
    ) -> str | None:
        """Two consumer ranks read from each producer rank, and both must tell."""
        if ack.transfer_id not in live_transfer_ids or ack.transfer_id in completed_transfer_ids:
            return None
        notification_counts[ack.transfer_id] = notification_counts.get(ack.transfer_id, 0) + 1
        if notification_counts[ack.transfer_id] < 2:
            return None
        completed_transfer_ids.add(ack.transfer_id)
        return str(ack.transfer_id)

    connector = module(
        monkeypatch, f"{V1}.moriio.moriio_connector", resolve_moriio_transfer_ack=resolve_moriio_transfer_ack
    )
    guest.worker = SimpleNamespace(rank=3)
    made = worker(guest, monkeypatch, MoRIIOConnector())

    def ack(transfer: str) -> None:
        connector.resolve_moriio_transfer_ack(
            SimpleNamespace(transfer_id=transfer, consumer_tp_size=8),
            producer_tp_size=4,
            live_transfer_ids={"t1", "t2"},
            notification_counts=counts,
            completed_transfer_ids=freed,
        )

    for transfer in ("t1", "t2", "unknown", "t1", "t1"):  # t1 a third time: freed already
        ack(transfer)
    (gate,) = [r for r in made.drain() if isinstance(r, records.Gate)]
    assert gate.facts.acks == (gates.Acks(producer_rank=3, producer_tp=4, consumer_tp=8, received=2),)
    assert ack_fan_in.check(gate.facts).state == gates.GateState.HOLDS
    assert list(made.drain()) == []
    assert not guest.patches.failed


def test_arrived_requests_are_followed_until_they_run_and_aborted_ones_forgotten(guest: Guest) -> None:
    guest.engine = scheduler = Scheduler(LMCacheConnectorV1())
    made = EngineKv(guest)
    made.watch()
    scheduler.connector.update_state_after_alloc("a", None, 96)
    scheduler.connector.update_state_after_alloc("d", None, 0)
    assert by_seam(made) == {("kv_alloc", ""): (-1, 96, 1, 1)}

    def arrived() -> tuple[int, int]:
        (found,) = [r.facts.arrivals for r in made.drain() if isinstance(r, records.Gate)]
        assert found is not None
        return found.received, found.ran

    for told in ({"a", "b", "c"}, {"a"}, None):  # a completion told twice is one arrival
        scheduler._update_from_kv_xfer_finished(SimpleNamespace(finished_recving=told))
    assert arrived() == (3, 0)
    scheduler.output = SimpleNamespace(num_scheduled_tokens={"a": 4, "z": 1})
    scheduler.schedule()
    assert arrived() == (3, 1)
    del scheduler.requests["c"]
    scheduler.schedule()
    assert arrived() == (2, 1)  # b waits: stranded if it stays so
    assert list(made.drain()) == []


def test_an_unknown_figure_makes_its_sum_unknown() -> None:
    seen = [Seen("X", "load", "s", "", 5, 1, -1, 10), Seen("X", "load", "s", "", -1, 2, -1, 20)]
    (one,) = summed(seen)
    assert (one.payload_bytes, one.tokens, one.requests, one.dur_ns, one.count) == (-1, 3, -1, 30, 2)


def test_hooks_never_reach_the_connectors_caller(guest: Guest, monkeypatch: pytest.MonkeyPatch) -> None:
    connector = ExampleConnector()
    worker(guest, monkeypatch, connector)
    connector._connector_metadata = SimpleNamespace(requests=[SimpleNamespace()])  # another version's shape
    connector.start_load_kv(SimpleNamespace(attn_metadata={}))
    assert guest.patches.failed == {"kv_load": 1}
