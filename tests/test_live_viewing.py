"""A real vLLM as the viewer sees it: its load rises and falls, it ends, and it comes back on the same address."""

from __future__ import annotations

from live_load import AFTER, AGAIN, BUSY, DOWN, IDLE, PLACES, WAVES, Loaded

from m3probe.model.view import Word

RATES = ("output_tokens_per_s", "prompt_tokens_per_s", "requests_per_s", "preemptions")
ENOUGH = 5
"""Pages that a busy server gave: on a host of two busy cores it may answer between the waves alone."""


def told(loaded: Loaded, name: str, gauge: str) -> list[float]:
    """Values of a gauge while something went on, one for each page."""
    shown = {view.sources[0].last_ok_s: view.gauges[gauge].value for view in loaded.views[name] if view.gauges}
    return [value for value in shown.values() if value is not None]


def test_an_idle_server_is_live_with_nothing_running(loaded: Loaded) -> None:
    last = loaded.views[IDLE][-1]
    assert last.word in {Word.LIVE, Word.SLOW}
    assert (last.gauges["running"].value, last.gauges["waiting"].value) == (0, 0)
    assert last.gauges["ttft_p50_ms"].value is None
    assert last.title.startswith("m at 127.0.0.1:")


def test_the_gauges_rise_with_the_load_and_fall_after_it(loaded: Loaded) -> None:
    running, waiting = told(loaded, BUSY, "running"), told(loaded, BUSY, "waiting")
    assert max(running) <= PLACES and max(waiting) <= max(WAVES) - PLACES
    if len(running) >= ENOUGH:
        assert max(running) == PLACES and max(waiting) >= 1
    assert max(told(loaded, BUSY, "output_tokens_per_s")) > 0
    last = loaded.views[AFTER][-1]
    assert (last.gauges["running"].value, last.gauges["waiting"].value) == (0, 0)
    assert last.report is not None


def test_a_server_that_ended_is_down_and_its_last_figures_age(loaded: Loaded) -> None:
    last = loaded.views[DOWN][-1]
    assert last.word is Word.DOWN and "refused" in last.detail
    ages = [view.gauges["running"].age_s or 0.0 for view in loaded.views[DOWN]]
    assert ages == sorted(ages) and ages[-1] > 2.0
    assert last.gauges["running"].value == 0 and last.report is not None


def test_a_restart_is_told_and_no_rate_was_ever_negative(loaded: Loaded) -> None:
    assert Word.RESET in {view.word for view in loaded.views[AGAIN]}
    last = loaded.views[AGAIN][-1].gauges["output_tokens_per_s"]
    assert last.value is not None and len(last.resets) == 1
    for view in (view for views in loaded.views.values() for view in views):
        for shown in (view.gauges[name] for name in RATES if name in view.gauges):
            assert (shown.value or 0.0) >= 0.0
            assert all(value is None or value >= 0.0 for _, value in shown.recent)
