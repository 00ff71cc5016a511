"""The order of the ranked list on screen: held until an item kept its new place for three views."""

from m3probe.present.sheets._order import as_shown, held


def run(rankings: list[str], shown: str = "") -> list[str]:
    """The order on screen after each ranking; an item is a letter."""
    found = []
    here = tuple(shown)
    for at in range(len(rankings)):
        here = held(here, [tuple(each) for each in rankings[: at + 1]])
        found.append("".join(here))
    return found


def test_the_first_ranking_is_shown_as_it_is() -> None:
    assert run(["ABC"]) == ["ABC"]


def test_two_items_that_swap_places_move_with_the_third_view_and_not_before() -> None:
    assert run(["ABC", "ABC", "ABC", "BAC", "BAC", "BAC"]) == ["ABC", "ABC", "ABC", "ABC", "ABC", "BAC"]


def test_items_that_swap_with_every_view_never_move() -> None:
    assert set(run(["ABC", "BAC"] * 6)) == {"ABC"}


def test_a_new_item_stands_at_the_end_at_once_and_moves_up_when_it_held_its_place() -> None:
    assert run(["AB", "XAB", "XAB", "XAB", "XAB"]) == ["AB", "ABX", "ABX", "XAB", "XAB"]


def test_an_item_that_is_gone_leaves_at_once_and_the_others_keep_their_order() -> None:
    assert run(["ABCD", "ACD"]) == ["ABCD", "ACD"]


def test_an_item_that_comes_and_goes_does_not_hold_up_the_others() -> None:
    rankings = ["ABC", "XBAC", "BAC", "XBAC"]
    assert run(rankings)[-1] == "BACX"


def test_every_item_is_shown_once_whatever_the_rankings_repeat() -> None:
    assert held(("A", "A", "B"), [("B", "B", "A")]) == ("A", "B")
    assert held(("A",), []) == ()


def test_the_screens_order_holds_over_the_rankings() -> None:
    assert as_shown(("A", "B", "C"), ("C", "Z", "A")) == ("C", "A", "B")
    assert as_shown(("A", "B"), ()) == ("A", "B")
