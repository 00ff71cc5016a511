"""A server by its address: what it offers, a load balancer, hostile answers, and the series that is recorded."""

import json
from pathlib import Path

import pytest
from attach_kit import FakeVllm, Heard, new_proc, serving

from m3probe.attach import fetch
from m3probe.attach.asked import Asked
from m3probe.attach.attaching import attach
from m3probe.attach.fetch import client, header
from m3probe.attach.metrics import first_looks, parse
from m3probe.attach.offers import Offers, hidden
from m3probe.errors import UnreadableInput, UsageError
from m3probe.schema import records
from m3probe.schema.frames import MAGIC, Cut
from m3probe.schema.frames import records as records_in


def look(url: str, proc: Path, **more: object) -> Asked:
    return Asked(url, proc=proc, **more)  # type: ignore[arg-type]


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("M3PROBE_RUN", str(tmp_path / "run"))
    return new_proc(tmp_path)


def test_each_address_says_what_it_gave_and_which_flag_would_give_more(proc: Path) -> None:
    with serving(FakeVllm()) as url:
        report = attach(look(url, proc, once=True), Heard())
    offers = {offer.path: offer for offer in report.offers}
    assert (report.outcome, report.version) == ("looked", "0.32.0")
    assert offers["/v1/models"].text == "m (up to 512 tokens)"
    assert offers["/metrics"].text == "4 series of vLLM, 140 steps so far"
    assert "--kv-cache-metrics" in offers["/metrics"].more
    assert (offers["/server_info"].state, offers["/collective_rpc"].state) == ("absent", "absent")
    assert "VLLM_SERVER_DEV_MODE=1" in offers["/server_info"].more
    assert "--profiler-config" in offers["/start_profile"].more


def test_dev_mode_gives_the_configuration_without_keys_and_the_models_modules() -> None:
    fake = FakeVllm()
    config = {"parallel_config": {"tensor_parallel_size": 2}, "api_key": "abc"}
    info = json.dumps({"vllm_config": config, "vllm_env": {"VLLM_API_KEY": "abc", "VLLM_X": "1"}}).encode()
    fake.extra = {
        "/server_info?config_format=json": (200, info),
        "/collective_rpc": (405, b""),
        "POST /collective_rpc": (200, b'{"results": ["A(\\n B()\\n)", "A(\\n B()\\n)"]}'),
        "/start_profile": (405, b""),
    }
    with serving(fake) as url:
        address = client(url, {})
        offers = Offers(address, first_looks(address).last or "")
        told = {offer.path: offer.text for offer in offers.all()}
    assert told["/collective_rpc"] == "the modules of the model from 2 workers (3 lines)"
    assert offers.profiler is True
    kept = offers.configs[0].sections
    assert kept["vllm_config"] == {"parallel_config": {"tensor_parallel_size": 2}, "api_key": "(set)"}
    assert kept["vllm_env"] == {"VLLM_API_KEY": "(set)", "VLLM_X": "1"}
    assert not [ask for ask in fake.asked if ask[:2] == ("POST", "/start_profile")]


def test_a_refused_key_names_the_header_that_is_missing_and_the_header_is_sent(proc: Path) -> None:
    fake = FakeVllm()
    fake.extra["/v1/models"] = (401, b"{}")
    with serving(fake) as url:
        report = attach(look(url, proc, once=True, headers={"Authorization": "Bearer x"}), Heard())
    offer = next(offer for offer in report.offers if offer.path == "/v1/models")
    assert (offer.state, offer.more) == ("refused", "--header 'Authorization: Bearer KEY'")
    assert {headers.get("Authorization") for _, _, headers in fake.asked} == {"Bearer x"}


def test_start_times_that_alternate_are_a_load_balancer_and_refused(proc: Path) -> None:
    fake = FakeVllm()
    fake.started = [1000.0, 2000.0]
    with serving(fake) as url, pytest.raises(UnreadableInput) as refused:
        attach(look(url, proc, once=True), Heard())
    assert "several servers behind one address" in refused.value.what
    assert "pod's" in refused.value.next_move


def test_one_start_time_that_changes_once_is_a_restart(proc: Path) -> None:
    fake = FakeVllm()
    fake.started = [1000.0, 1000.0, *[2000.0] * 50]
    with serving(fake) as url:
        report = attach(look(url, proc, once=True), Heard())
    assert "the server restarted while it was looked at: its counters begin again" in report.losses


def test_a_balancer_that_shows_only_while_recording_ends_it_and_says_so(proc: Path, tmp_path: Path) -> None:
    fake = FakeVllm()
    fake.started = [*[1000.0] * 5, 2000.0]
    with serving(fake) as url, pytest.raises(UnreadableInput, match="several servers"):
        attach(look(url, proc, seconds=8.0, out=tmp_path / "out"), Heard())


@pytest.mark.parametrize("body", [b"<html>hello</html>", b'{"version": 3'])
def test_a_server_that_is_not_vllm_is_refused(proc: Path, body: bytes) -> None:
    fake = FakeVllm()
    fake.extra = {"/version": (200, body), "/metrics": (200, b"go_gc 1\n")}
    with serving(fake) as url, pytest.raises(UnreadableInput, match="not vLLM"):
        attach(look(url, proc, once=True), Heard())


def test_nobody_at_the_address_is_no_server(proc: Path) -> None:
    with serving(FakeVllm()) as url:
        pass
    with pytest.raises(UnreadableInput, match="no server answers"):
        attach(look(url, proc, once=True), Heard())


def test_a_server_that_drips_is_left_after_the_whole_time(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeVllm()
    fake.extra["/version"] = (200, b"DRIP")
    with serving(fake) as url:
        assert client(url, {}).get("/version", within_s=0.4).error == "no whole answer within 0 s"


def test_an_answer_without_end_is_cut_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "MOST_BYTES", 1000)
    fake = FakeVllm()
    fake.extra["/version"] = (200, b"x" * 1001)
    with serving(fake) as url:
        assert client(url, {}).get("/version").error == "more than 1,000 bytes"


@pytest.mark.parametrize("url", ["http://", "http://u:p@h/", "http://h:99999", "http://h?a=1"])
def test_an_address_that_no_server_has_is_a_usage_error(url: str) -> None:
    with pytest.raises(UsageError):
        client(url, {})


@pytest.mark.parametrize("text", ["no colon", ": v", "A\r\nB: c", "A: b\r\nC: d"])
def test_a_header_that_would_break_the_request_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no header"):
        header(text)


def test_values_labels_and_bad_lines_are_read_as_prometheus_writes_them() -> None:
    found = parse('a{x="1,2\\"}",y="\\\\"} 3\nb 1e3 1700000000\nc NaN\nnot a line at all {\n', 7)
    assert found.values == {("a", (("x", '1,2"}'), ("y", "\\"))): 3.0, ("b", ()): 1000.0}
    assert (found.bad_lines, found.mono_ns) == (2, 7)


def test_foreign_data_is_kept_without_keys_and_without_depth_beyond_bounds() -> None:
    deep: object = "x"
    for _ in range(50):
        deep = [deep]
    assert "..." in str(hidden(deep))
    given = {"hf_token": "t", "max_tokens": 3, "tokenizer": "here", "api_key": None, "apikey": "k", "key_name": ["a"]}
    assert hidden(given) == given | {"hf_token": "(set)", "apikey": "(set)", "key_name": "(set)"}


def test_a_series_is_recorded_by_steps_with_buckets_at_both_ends_alone(proc: Path, tmp_path: Path) -> None:
    fake, heard = FakeVllm(), Heard()
    with serving(fake) as url:
        report = attach(look(url, proc, steps=20, out=tmp_path / "out"), heard)
    assert (report.outcome, report.ended) == ("recorded", "steps")
    assert report.steps >= 20
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["id"]
    (file,) = (tmp_path / "out").glob("host-*.m3p")
    data, cut = file.read_bytes(), Cut()
    kept = list(records_in(data, cut, len(MAGIC)))
    assert (cut.why, cut.skipped) == ("", 0)
    assert isinstance(kept[-1], records.End)
    samples = [r for r in kept if isinstance(r, records.Sample) and "model_name" in r.labels]
    steps = [r.values["vllm:iteration_tokens_total_count"] for r in samples if "le" not in r.labels]
    assert steps == sorted(steps)
    assert len(steps) == report.scrapes
    assert len([r for r in samples if r.labels.get("le") == "+Inf"]) == 2


def test_a_folder_that_holds_something_is_not_written_into(proc: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "old.m3p").touch()
    with serving(FakeVllm()) as url, pytest.raises(UsageError, match="not empty"):
        attach(look(url, proc, seconds=1.0, out=tmp_path / "out"), Heard())


def test_between_the_ends_only_gauges_and_counters_that_moved_are_written() -> None:
    text = (
        'vllm:n_total 5\nvllm:m_total {}\nvllm:g 1\nvllm:h_bucket{{le="1"}} 2\nvllm:h_sum 3\nvllm:c_info 1\ngo_gc 1\n'
    )
    first, second = parse(text.format(1), 1), parse(text.format(2), 2)
    everything = {name: value for sample in first.samples() for name, value in sample.values.items()}
    assert everything == {"vllm:n_total": 5, "vllm:m_total": 1, "vllm:g": 1, "vllm:h_bucket": 2, "vllm:h_sum": 3}
    (moved,) = second.samples(first)
    assert (moved.values, moved.mono_ns) == ({"vllm:m_total": 2, "vllm:g": 1}, 2)
