"""Pages as files hold them: cut, damaged, several in one log, with times, and what is no page at all."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from metrics_kit import START, judged, lines, page, read

from m3probe.errors import UnreadableInput
from m3probe.model.recording import Recording
from m3probe.readers._prom_times import named, time_of
from m3probe.sources import open_recording

SECOND = 1_000_000_000
HEAD = "HTTP/1.1 200 OK\r\ndate: Mon, 24 Nov 2025 16:00:00 GMT\r\nserver: uvicorn\r\ncontent-type: text/plain\r\n\r\n"
ONE = page({"num_requests_running": 3, "num_requests_waiting": 4})
WHOLE = 'vllm:a_seconds_bucket{le="1.0"} 1\nvllm:a_seconds_bucket{le="+Inf"} 2\nvllm:a_seconds_count 2\nvllm:a_seconds_sum 3.0\n'


def write(folder: Path, text: str | bytes, name: str = "page.prom") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def values(rec: Recording) -> dict[str, list[float]]:
    """Series -> its values page by page."""
    found: dict[str, list[float]] = {}
    table = rec.tables["metrics"]
    for series, value in zip(table["series"].tolist(), table["value"].tolist(), strict=True):
        found.setdefault(rec.strings[series].partition("{")[0], []).append(value)
    return found


def words(rec: Recording) -> list[str]:
    return [note.word for note in rec.notes]


# --- a page ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "cut", ['vllm:num_requests_running{engine="0"} 12', "vllm:num_requests_run", "# TYPE vllm:num"]
)
def test_a_page_that_ends_inside_a_line_lost_its_tail(tmp_path: Path, cut: str) -> None:
    # 12 may be the beginning of 1234
    rec = read(write(tmp_path, page({"num_requests_waiting": 4}) + cut))
    assert values(rec) == {"vllm:num_requests_waiting": [4.0]}
    assert (words(rec), rec.outcome) == (["truncated_page"], "partial")
    assert rec.files[0].counts.truncated


@pytest.mark.parametrize("lines", [1, 2, 3])
def test_a_page_that_ends_inside_a_histogram_lost_its_tail(tmp_path: Path, lines: int) -> None:
    head = "# TYPE vllm:a_seconds histogram\n"
    rec = read(write(tmp_path, head + "".join(WHOLE.splitlines(keepends=True)[:lines])))
    assert words(rec) == ["truncated_page"]


@pytest.mark.parametrize(
    "text", [WHOLE, "\n".join([*WHOLE.splitlines()[:2], *reversed(WHOLE.splitlines()[2:])]) + "\n"]
)
def test_count_and_sum_may_come_in_either_order(tmp_path: Path, text: str) -> None:
    assert words(read(write(tmp_path, "# TYPE vllm:a_seconds histogram\n" + text))) == []


def test_openmetrics_ends_with_a_mark_and_may_have_exemplars(tmp_path: Path) -> None:
    text = (
        "# TYPE vllm:prompt_tokens counter\n"
        'vllm:prompt_tokens_total{engine="0"} 7.0 1764000000.5 # {trace_id="a b}"} 1.0 1764000000.0\n'
        'vllm:prompt_tokens_created{engine="0"} 1.764e9\n# EOF'
    )
    rec = read(write(tmp_path, text))
    assert (values(rec), words(rec)) == ({"vllm:prompt_tokens_total": [7.0]}, [])
    assert rec.tables["scrapes"]["at_ns"].tolist() == [1_764_000_000_500_000_000]


def test_created_times_are_samples_and_never_values(tmp_path: Path) -> None:
    text = ONE + 'vllm:generation_tokens_created{engine="0"} 1.7643e+09\n'
    rec = read(write(tmp_path, text))
    assert "vllm:generation_tokens_created" not in values(rec)
    assert rec.meta.metrics[0].samples == 3
    assert rec.tables["scrapes"]["created_s"].tolist() == [1.7643e9]


def test_lines_that_are_no_sample_are_numbered_and_the_rest_is_kept(tmp_path: Path) -> None:
    text = f"{ONE}<html>502 Bad Gateway</html>\nvllm:x 1_000\nvllm:y\n{page({'kv_cache_usage_perc': 0.5})}"
    rec = read(write(tmp_path, text))
    assert values(rec).keys() == {"vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc"}
    assert (rec.meta.metrics[0].bad_lines, rec.outcome) == ((5, 6, 7), "partial")
    assert "(line 5, 6, 7)" in rec.notes[0].text


def test_bad_utf8_and_control_bytes_lose_no_other_line(tmp_path: Path) -> None:
    rec = read(
        write(tmp_path, ONE.encode() + b"\xff\xfe\x00\x01 garbage\n" + b'vllm:kv_cache_usage_perc{m="\xff"} 0.5\n')
    )
    assert values(rec)["vllm:kv_cache_usage_perc"] == [0.5]
    assert rec.meta.metrics[0].bad_lines == (5,)


def test_a_very_long_line_is_one_bad_line(tmp_path: Path) -> None:
    rec = read(write(tmp_path, ONE + 'vllm:x{a="' + "y" * 9_000_000 + '"} 1\n' + page({"kv_cache_usage_perc": 0.5})))
    assert values(rec)["vllm:kv_cache_usage_perc"] == [0.5]
    assert rec.meta.metrics[0].bad == 1


def test_of_a_series_that_a_page_has_twice_the_last_one_counts(tmp_path: Path) -> None:
    rec = read(write(tmp_path, ONE + 'vllm:num_requests_waiting{engine="0"} 9\n'))
    assert words(rec) == ["repeated_series"]
    assert len(rec.tables["scrapes"]) == 1


def test_a_gzip_stream_that_ends_early_keeps_whole_lines(tmp_path: Path) -> None:
    text = "".join(f'vllm:num_requests_running{{engine="{n}"}} {n}.0\n' for n in range(5000))
    rec = read(write(tmp_path, gzip.compress(text.encode())[:-2000], "page.prom.gz"))
    kept = values(rec)["vllm:num_requests_running"]
    assert kept == [float(n) for n in range(len(kept))]
    assert 100 < len(kept) < 5000
    assert words(rec) == ["truncated_page"]


@pytest.mark.parametrize("text", ["# TYPE vllm:x gauge\n", "# TYPE vllm:x gauge\nnothing here\n"])
def test_a_page_without_a_sample_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(UnreadableInput, match="no metrics in file"):
        read(write(tmp_path, text))


def test_an_empty_page_in_a_folder_is_told_and_loses_nothing_else(tmp_path: Path) -> None:
    write(tmp_path, ONE, "a.prom")
    write(tmp_path, "", "b.prom")
    rec = read(tmp_path)
    assert [Path(f.path).name for f in rec.files] == ["a.prom"]
    assert [(n.word, n.lossy) for n in rec.notes] == [("unread_beside", False)]


# --- several pages in one file -------------------------------------------------------------------------------------


def test_a_log_of_scrapes_holds_a_page_for_each_time_its_first_series_comes_again(tmp_path: Path) -> None:
    rec = read(write(tmp_path, ONE + page({"num_requests_running": 5, "num_requests_waiting": 0}), "scrapes.txt"))
    assert values(rec) == {"vllm:num_requests_running": [3.0, 5.0], "vllm:num_requests_waiting": [4.0, 0.0]}
    assert rec.tables["metrics"]["scrape"].tolist() == [0, 0, 1, 1]
    assert rec.tables["scrapes"]["at_ns"].tolist() == [-1, -1]


@pytest.mark.parametrize(
    "stamps",
    [
        ("2025-11-24T16:00:00Z", "2025-11-24T16:00:05Z"),
        ("# scraped 2025-11-24 16:00:00 UTC", "# scraped 2025-11-24 16:00:05 UTC"),
        ("=== 1764000000 ===", "=== 1764000005 ==="),
        ("1764000000.000", "1764000005.000"),
        ("Mon Nov 24 16:00:00 UTC 2025", "Mon Nov 24 16:00:05 UTC 2025"),
        (HEAD, HEAD.replace("16:00:00", "16:00:05")),
    ],
    ids=["iso", "comment", "epoch", "fraction", "date", "curl -i"],
)
@pytest.mark.parametrize("behind", [False, True])
def test_a_time_between_pages_is_that_of_the_page(tmp_path: Path, stamps: tuple[str, str], behind: bool) -> None:
    parts = [f"{ONE}{stamp}\n" if behind else f"{stamp}\n{ONE}" for stamp in stamps]
    rec = read(write(tmp_path, "".join(parts), "scrapes.txt"))
    assert rec.tables["scrapes"]["at_ns"].tolist() == [START * SECOND, (START + 5) * SECOND]
    assert words(rec) == []


# --- names and times -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "server", "at_s", "place"),
    [
        ("metrics_1764000000.prom", "metrics", 1_764_000_000, -1),
        ("metrics-1764000000123.txt", "metrics", 1_764_000_000.123, -1),
        ("20251124-160000_metrics.prom", "metrics", 1_764_000_000, -1),
        ("decode.2025-11-24T16:00:00+01:00.prom.gz", "decode", 1_763_996_400, -1),
        ("prefill0_0007.prom", "prefill0", None, 7),
        ("before.prom", "", None, 0),
        ("metrics_after.txt", "metrics", None, 1),
        ("metrics.prom", "metrics", None, -1),
    ],
)
def test_a_name_tells_whose_page_it_is_and_when_it_was_taken(
    name: str, server: str, at_s: float | None, place: int
) -> None:
    said = named(Path("run") / name)
    wanted = -1 if at_s is None else round(at_s * 1000) * 1_000_000
    assert (said.server, said.at_ns, said.place) == (str(Path("run") / server), wanted, place)


@pytest.mark.parametrize("line", ["", "2025-13-45T99:99:99Z", "request 12345", "Mon of all days in the week", "9" * 70])
def test_what_is_no_time_gives_none(line: str) -> None:
    assert time_of(line) == -1


# --- the search of a folder ------------------------------------------------------------------------------------------


def test_files_are_taken_by_what_they_hold(tmp_path: Path) -> None:
    write(tmp_path, ONE, "metrics.txt")
    write(tmp_path, "# Notes\nTYPE of run: long\n", "notes.txt")
    write(tmp_path, "a,b\n1,2\n", "table.csv")
    rec = open_recording([tmp_path])
    assert [Path(f.path).name for f in rec.files] == ["metrics.txt"]
    assert rec.notes == ()


# --- whatever a file holds -----------------------------------------------------------------------------------------------


def test_a_page_that_is_cut_anywhere_gives_no_value_that_the_whole_page_has_not(tmp_path: Path) -> None:
    text = (Path(__file__).parent / "data" / "cases" / "p01_two_engines_v033.prom").read_bytes()
    whole = values(read(write(tmp_path, text)))
    ends = {
        1,
        *range(29, len(text), 29),
        *(at + near for at in range(len(text)) if text[at] == 10 for near in (-1, 0, 1)),
    }
    for end in sorted(ends):  # around every line's end, and each 29th byte: all of them take 15 s
        try:
            found = values(read(write(tmp_path, text[:end])))
        except UnreadableInput:
            continue
        for name, held in found.items():
            assert held == whole[name][: len(held)], end


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.one_of(st.binary(max_size=60), st.sampled_from([ONE.encode(), WHOLE.encode(), HEAD.encode(), b"# EOF"]))
    )
)
def test_no_bytes_raise_anything_but_our_own_error(tmp_path: Path, parts: list[bytes]) -> None:
    path = write(tmp_path, b"# TYPE vllm:x gauge\n" + b"\n".join(parts))
    try:
        found = judged(path)
    except UnreadableInput:
        return
    assert not [f.id for f in found.answer.findings if f.id.endswith(".failed")]


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf", "-5", "1e400", "9" * 40])
def test_values_that_nothing_can_be_are_no_lengths(tmp_path: Path, value: str) -> None:
    names = (
        "num_requests_running",
        "num_requests_waiting",
        "kv_cache_usage_perc",
        "process_open_fds",
        "process_max_fds",
    )
    counters = (
        "prefix_cache_queries_total",
        "prefix_cache_hits_total",
        "request_success_total",
        "num_preemptions_total",
    )
    for number in range(6):
        held = dict.fromkeys((*names, *counters), value)
        (tmp_path / f"m_{START + number}.prom").write_text(page(held))
    found = judged(tmp_path)
    assert not [f.id for f in found.answer.findings if f.id.endswith(".failed")]
    if value in {"NaN", "+Inf", "-Inf", "1e400"}:
        assert "sample(s)" not in lines(found)["admission"]


def test_a_sample_that_is_no_number_is_no_length_of_nothing(tmp_path: Path) -> None:
    for number, value in enumerate((7, "NaN", 9)):
        (tmp_path / f"m_{START + number}.prom").write_text(page({"num_requests_waiting": value}))
    assert "waiting 7 to 9 requests in 2 sample(s)" in lines(judged(tmp_path))["admission"]
