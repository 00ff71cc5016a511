"""Every action of the table by its key, in the viewer, over pages of the tests' own."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from keys_kit import at, check, live_feed, seen, trail
from textual import events
from textual.pilot import Pilot
from tui_kit import NOW, StillFeed, app, own_pages, shown, text_of, view

from m3probe.model.compare_report import CompareReport
from m3probe.model.view import View
from m3probe.present.sheets.sheet import Cell, Column, Grid, Line, Said, Sheet
from m3probe.tui.actions import ACTIONS, BY_ID, FOOTER, KEPT, QUESTIONS
from m3probe.tui.app import M3ProbeApp
from m3probe.tui.screens.help import HelpScreen
from m3probe.tui.screens.palette import PaletteScreen
from m3probe.tui.screens.problem import ProblemScreen
from m3probe.tui.theme import DARK, LIGHT

# --- the table -----------------------------------------------------------------------------------------------


def test_no_key_means_two_things() -> None:
    keys = [key for action in ACTIONS for key in action.keys]
    assert sorted(keys) == sorted(set(keys))
    assert len(BY_ID) == len(ACTIONS)


def test_the_footer_has_seven_entries_at_most_and_always_help_and_quit() -> None:
    assert len(FOOTER) <= 7
    assert set(KEPT) <= {action.id for action in FOOTER}


def test_every_action_is_a_method_of_the_screen_or_the_app() -> None:
    from m3probe.tui.screens.sheet import SheetScreen

    names = {f"action_{action.call.partition('(')[0]}" for action in ACTIONS}
    assert {name for name in names if not hasattr(SheetScreen, name) and not hasattr(M3ProbeApp, name)} == set()


def test_every_letter_has_the_same_key_with_an_arrow_or_a_name_where_one_exists() -> None:
    assert set(BY_ID["down"].keys) == {"down", "j"}
    assert set(BY_ID["up"].keys) == {"up", "k"}
    assert set(BY_ID["help"].keys) == {"question_mark", "f1"}


# --- moving --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "where"),
    [
        ("j j", "item-3"),
        ("down down k", "item-2"),
        ("up", "item-1"),
        ("G", "queues"),
        ("end", "queues"),
        ("G g", "item-1"),
        ("tab", "shapes"),
        ("tab tab", "item-1"),
        ("shift+tab", "shapes"),
        ("j tab shift+tab", "item-1"),
        ("pagedown", "queues"),
        ("ctrl+d ctrl+u", "item-1"),
        ("pagedown pageup", "item-1"),
    ],
)
def test_keys_move_the_cursor(keys: str, where: str) -> None:
    check(keys, at, where)


def test_a_page_of_a_long_table_is_one_screen() -> None:
    """22 rows of which two are the heading: 20 lines."""
    check("4 pagedown", at, "item-20")
    check("4 pagedown pagedown pageup", at, "item-20")


def test_the_end_of_four_million_lines_is_one_key_away() -> None:
    check("4 G", at, "item-3999999")


# --- deeper and back -----------------------------------------------------------------------------------------


def test_enter_goes_deeper_and_escape_comes_back_to_the_same_line() -> None:
    check("j j enter", trail, ["overview", "detail/3"])
    check("j j enter j escape", lambda it: (trail(it), at(it)), (["overview"], "item-3"))
    check("j enter j j j enter escape", lambda it: (trail(it), at(it)), (["overview", "detail/2"], "item-4"))
    check("j j enter backspace", at, "item-3")


def test_escape_on_the_overview_stays_there() -> None:
    check("escape escape", trail, ["overview"])


def test_the_heading_says_where_you_are() -> None:
    async def then(it: M3ProbeApp, _: Pilot) -> None:
        assert text_of(it).splitlines()[0].startswith(" h200-m3-tp4 › overview › finding 3 ")

    seen("j j enter", then)


@pytest.mark.parametrize(
    ("key", "target"),
    [
        *((str(n), name) for n, name in enumerate(QUESTIONS, 1)),
        ("f", "findings"),
        ("c", "compare"),
        ("t", "steps"),
        ("o", "sources"),
    ],
)
def test_one_key_leads_to_each_page_from_anywhere(key: str, target: str) -> None:
    check(f"enter {key}", trail, ["overview", target])
    check(f"{key} 0", trail, ["overview"])
    check(f"{key} home", trail, ["overview"])
    check(f"{key} {key}", trail, ["overview", target])


def test_the_overview_keeps_its_place_while_questions_are_looked_at() -> None:
    check("j j j 2 0", at, "item-4")


# --- tables --------------------------------------------------------------------------------------------------


def test_typing_filters_and_enter_keeps_the_filter() -> None:
    check("enter slash 8 comma 0 0 0 enter", lambda it: it.pages.page.parts.stops(), 4)  # 8,000 to 38,000 calls
    check("slash u n p enter", at, "item-5")
    check("slash q j k", lambda it: it.pages.page.parts.grids()[0][1].order.needle, "qjk")


def test_escape_takes_the_filter_away_and_the_cursor_stays_on_its_item() -> None:
    check("slash u n p escape", lambda it: (it.pages.page.parts.stops(), at(it)), (12, "item-5"))


def test_backspace_corrects_the_filter_and_arrows_move_meanwhile() -> None:
    check(
        "enter slash 8 comma 0 0 0 0 backspace down", lambda it: (it.pages.page.parts.stops(), at(it)), (4, "item-18")
    )


def test_sorting_goes_through_the_columns_and_back_to_how_it_came() -> None:
    def order(it: M3ProbeApp) -> object:
        return it.pages.page.parts.grids()[0][1].order.column

    assert order
    for presses, column in ((1, 0), (2, 1), (5, 4), (6, None)):
        check(" ".join(["s"] * presses), order, column)


def test_figures_sort_with_the_largest_first_and_the_cursor_follows_its_item() -> None:
    def first(it: M3ProbeApp) -> object:
        part = it.pages.page.parts.grids()[0][1]
        return part.line(0).key, at(it)

    check("s s s s", first, ("item-7", "item-1"))
    check("s s s s S", first, ("item-1", "item-1"))


def test_zoom_shows_one_table_alone_and_escape_leaves_it() -> None:
    check("tab z", lambda it: (it.pages.page.parts.stops(), at(it)), (5, "shapes"))
    check("tab z z", lambda it: (it.pages.page.parts.stops(), at(it)), (12, "shapes"))
    check("tab z escape", lambda it: (it.pages.page.parts.stops(), trail(it)), (12, ["overview"]))


# --- what is chosen ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("r", "rank 0, phase None"),
        ("r r", "rank None, phase None"),
        ("p", "rank None, phase prefill"),
        ("v", "verdict "),
    ],
)
def test_rank_phase_and_verdict_are_cycled_through_and_end_with_all(key: str, said: str) -> None:
    async def then(it: M3ProbeApp, _: Pilot) -> None:
        assert said in text_of(it)

    seen(f"1 {key}", then)


def test_what_is_chosen_stands_in_the_heading() -> None:
    async def then(it: M3ProbeApp, _: Pilot) -> None:
        assert text_of(it).splitlines()[0].endswith("READ rank 0  prefill")

    seen("r p", then)


# --- taking it away ------------------------------------------------------------------------------------------


def test_runs_that_are_compared_are_the_first_page_and_the_overview_one_step_back() -> None:
    compared = StillFeed([view(compare=CompareReport((), (), ()))])
    check("", trail, ["overview", "compare"], feed=compared)
    compared = StillFeed([view(compare=CompareReport((), (), ()))])
    check("escape", trail, ["overview"], feed=compared)


def test_copy_takes_the_whole_of_a_page_whose_lines_need_each_other() -> None:
    from m3probe.tui.markdown import page

    lines = Grid("What ran", (Column("phase"),), (Line("a", (Cell("decode"),)), Line("b", (Cell("prefill"),))))
    told = Sheet("path", (Said("it is missed", "missed"), lines), whole=True)
    check("1 y", lambda it: it.clipboard, page(told, ("overview", "path")), pages={"shapes": lambda *_: told})


def test_copy_takes_the_line_or_the_words_of_the_page() -> None:
    check(
        "j y",
        lambda it: it.clipboard.splitlines()[1:3],
        ["- **what**: finding number 2", "- **verdict**: ! unexpected"],
    )
    check("enter y", lambda it: it.clipboard, "# finding 1\n")
    check("1 y", lambda it: it.clipboard, "## overview › chosen\n\nrank None, phase None, verdict None\n")


def test_export_writes_the_page_and_the_report_and_says_where() -> None:
    written: dict[str, str] = {}

    def save(name: str, text: str) -> str:
        written[name] = text
        return f"here/{name}"

    async def then(it: M3ProbeApp, _: Pilot) -> None:
        assert list(written) == ["m3probe-20231114-221320.md", "m3probe-20231114-221320.json"]
        assert written["m3probe-20231114-221320.md"].startswith("## overview\n")
        assert "| 3 | finding number 3 | ● executed | 4.5 | 3,000 |" in written["m3probe-20231114-221320.md"]
        assert written["m3probe-20231114-221320.json"].startswith('{\n  "schema_version"')
        assert "here/m3probe-20231114-221320.md" in text_of(it)

    seen("e", then, save=save)


def test_an_export_that_cannot_be_written_says_why_and_the_pages_stay() -> None:
    def save(_name: str, _text: str) -> str:
        raise PermissionError(13, "Permission denied")

    async def then(it: M3ProbeApp, pilot: Pilot) -> None:
        assert isinstance(it.screen, ProblemScreen)
        assert "Permission denied" in text_of(it)
        await pilot.press("escape")
        assert it.screen is it.pages

    seen("e", then, save=save)


def test_a_file_of_the_same_second_is_not_written_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from m3probe._looking import kept

    monkeypatch.chdir(tmp_path)
    assert [Path(kept("a.md", text)).name for text in ("one", "two")] == ["a.md", "a-2.md"]
    assert (tmp_path / "a.md").read_text() == "one"


# --- over the page, and out ----------------------------------------------------------------------------------


def test_help_names_every_action_and_closes_with_the_key_that_opened_it() -> None:
    from m3probe.tui.screens.help import help_sheet

    keys = help_sheet("Ranked").blocks[1]
    assert [line.key for line in keys.lines] == [action.id for action in ACTIONS]

    async def then(it: M3ProbeApp, pilot: Pilot) -> None:
        assert isinstance(it.screen, HelpScreen)
        assert "Keys act on: Ranked." in text_of(it)
        await pilot.press("j", "pagedown", "G", "g", "question_mark")
        assert it.screen is it.pages

    seen("question_mark", then)
    seen("f1", then)


def test_the_palette_runs_what_was_typed() -> None:
    check("ctrl+p f i n d enter", trail, ["overview", "findings"])
    check("colon t i m e enter", trail, ["overview", "steps"])
    check("ctrl+p escape", lambda it: (it.screen is it.pages, trail(it)), (True, ["overview"]))


def test_the_palette_has_only_what_can_be_done() -> None:
    async def then(it: M3ProbeApp, _: Pilot) -> None:
        assert isinstance(it.screen, PaletteScreen)
        assert "pause" not in text_of(it)

    seen("ctrl+p h o l d", then)


def test_the_theme_is_dark_or_light() -> None:
    check("T", lambda it: it.theme, LIGHT.name)
    check("T T", lambda it: it.theme, DARK.name)


@pytest.mark.parametrize(
    ("key", "status"), [("q", 0), ("ctrl+q", 0), ("ctrl+c", 130), ("question_mark ctrl+c", 130), ("ctrl+p ctrl+c", 130)]
)
def test_leaving_has_its_exit_status(key: str, status: int) -> None:
    check(key, lambda it: it.return_value, status)


def test_the_footer_greys_what_cannot_be_done_now_and_names_what_a_toggle_does_next() -> None:
    async def then(it: M3ProbeApp, _: Pilot) -> None:
        states = {action.id: it.pages.can(action) for action in FOOTER}
        assert states == {
            "open": True,
            "back": None,
            "filter": True,
            "sort": True,
            "pause": True,
            "help": True,
            "quit": True,
        }
        assert "space go on" in text_of(it)

    seen("space", then, feed=live_feed(), size=(100, 24))
    check("", lambda it: it.pages.can(BY_ID["pause"]), expected=False)


def test_a_page_that_fails_says_so_and_the_others_stand() -> None:
    async def then(it: M3ProbeApp, pilot: Pilot) -> None:
        assert "ValueError: a figure [red]that[/red] is none" in text_of(it)
        await pilot.press("y")
        assert "Traceback" in it.clipboard
        await pilot.press("1")
        assert "rank None" in text_of(it)

    seen("5", then)


def test_views_keep_the_cursor_on_its_item_when_lines_change_places() -> None:
    async def then(it: M3ProbeApp, pilot: Pilot) -> None:
        from tui_kit import COLUMNS, line

        from m3probe.present.sheets import targets
        from m3probe.present.sheets.sheet import Grid, Sheet

        row = it.pages.page.parts.row_of(it.pages.page.at) - it.pages.page.top

        def turned(_view: View, _lens: object) -> Sheet:
            return Sheet("overview", (Grid("Ranked", COLUMNS, tuple(line(n) for n in (4, 3, 2, 1, 5))),))

        import m3probe.present.sheets.kit as pages

        pages.overview = turned
        it.desk.arrived(replace(it.desk.view, at_s=NOW))
        it.pages.refresh_view()
        await pilot.pause()
        assert at(it) == "item-3"
        assert it.pages.page.parts.stop(it.pages.page.at)[2] == 1
        assert targets.PAGES["overview"] == ("kit", "overview")
        assert row >= 0

    seen("j j", then)


def test_the_document_has_every_action_word_for_word() -> None:
    from tree import ROOT

    from m3probe.tui.screens.help import shown_keys

    rows = [line for line in (ROOT / "docs" / "tui.md").read_text().splitlines() if line.startswith("| `")]
    keys = {action.id: " ".join(f"`{key}`" for key in shown_keys(action).split()) for action in ACTIONS}
    expected = [f"| {keys[a.id]} | {a.words} | {a.tooltip} | {a.where} |" for a in ACTIONS]
    assert rows[: len(expected)] == expected


def test_a_filter_that_is_longer_than_the_screen_shows_its_end_and_home_does_not_leave_the_page() -> None:
    async def go() -> None:
        it = app(StillFeed([view()]))
        with own_pages():
            async with it.run_test(size=(60, 20)) as pilot:
                await shown(pilot)
                await pilot.press("f", "slash")
                it.post_message(events.Paste("x" * 100 + "end"))
                await pilot.press("home")
                await pilot.pause()
                typed = text_of(it).split("\n")[-2]
                assert typed.startswith(" / …xxx")
                assert typed.endswith("xend_")
                assert [stop.target for stop in it.pages.trail] == ["overview", "findings"]

    asyncio.run(go())
