"""Days of polls: memory that does not grow, and what is left of the past in it."""

from __future__ import annotations

import numpy as np
import pytest
from metrics_kit import page
from viewing_kit import Hands, gauge, never, nobody

from m3probe.viewing._book import MOST_JUDGED, Book
from m3probe.viewing._book import TIERS as PAGES
from m3probe.viewing._clock import Paced
from m3probe.viewing._columns import MOST_COLUMNS
from m3probe.viewing.history import TIERS, History

DAY_S = 86_400


def test_three_days_of_rows_take_the_room_of_the_first() -> None:
    history = History(MOST_COLUMNS)
    before = history.nbytes
    row = np.zeros(MOST_COLUMNS)
    for second in range(3 * DAY_S):
        row[0] = second
        history.put(float(second), 0, row)
    assert history.nbytes == before < 4 * 2**20
    assert [len(ring) for ring in history.rings] == [rows for _, rows in TIERS] == [600, 360, 1440]
    held = history.since(0.0)
    # 10 minutes by the second, before that the hour by 10 s (300 rows), before that the day by the minute
    assert float(held.at_s[-1]) == 3 * DAY_S - 1
    assert held.at_s[-600:].tolist() == [float(n) for n in range(3 * DAY_S - 600, 3 * DAY_S)]
    assert 3 * DAY_S - float(held.at_s[0]) == pytest.approx(DAY_S, abs=60)
    assert (np.diff(held.at_s) > 0).all() and np.diff(held.at_s).max() <= 60
    assert held.values[:, 0].tolist() == held.at_s.tolist()


def test_three_days_of_pages_keep_a_bounded_choice_of_them() -> None:
    book = Book("http://h:1")
    body = page({"num_requests_running": 1, "generation_tokens_total": 5}).encode()
    for second in range(0, 3 * DAY_S, 5):
        assert book.read(body, 1e9 + second) is not None
    assert len(book.pages) <= sum(most for _, most in PAGES)
    assert len(book.strings) < 10
    rec = book.recording(None)
    assert len(rec.tables["scrapes"]) <= MOST_JUDGED + 1
    hour = book.recording(3600.0)
    at = hour.tables["scrapes"]["at_ns"]
    assert int(at[-1] - at[0]) / 1e9 == pytest.approx(3600, abs=125)  # the tier of that age has a page every 120 s


def test_labels_that_come_and_go_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("m3probe.viewing._book.MOST_SERIES", 500)
    hands = Hands([b""])
    hands.feed._book._most = 500
    hands.feed._paced.due_s = hands.now + 1190.0
    most = 0
    for second in range(1200):
        values = {"generation_tokens_total": 10 * second, f'demo_info{{request="{second}"}}': 1}
        hands.bodies = [page(values).encode()]
        view = hands.feed.poll(nobody, never)
        hands.now += 1.0
        most = max(most, len(hands.feed._book.strings))
    assert most <= 502
    assert gauge(view, "output_tokens_per_s").value == 10.0
    assert view.recording is not None
    names = {view.recording.strings[one] for one in view.recording.tables["metrics"]["series"].tolist()}
    assert names == {'vllm:generation_tokens_total{engine="0"}'}


def test_reports_cost_at_most_their_share() -> None:
    spent = [0.0]
    paced = Paced(0.01, 2.0, cost=lambda: spent[0])
    paced.begin()
    spent[0] += 0.05
    paced.end(100.0)
    assert (paced.due(104.9), paced.due(105.0)) == (False, True)  # 50 ms are 1 % of 5 s
    paced.begin()
    paced.end(105.0)
    assert (paced.due(106.9), paced.due(107.0)) == (False, True)  # never more often than every 2 s
