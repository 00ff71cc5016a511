"""The order of a live list: an item moves when it has held its new place, not with every change of a figure."""

from __future__ import annotations

from collections.abc import Sequence

VIEWS_HELD = 3
"""Views in a row in which an item must have its new place before it moves there."""


def held(shown: Sequence[str], last: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """The next order on screen.

    Args:
        shown: ids in the order that is on screen.
        last: the latest rankings, oldest first, the new one last; the last ``VIEWS_HELD`` are looked at.

    Returns:
        Every id of the new ranking once: those that are gone left it, new ones stand at its end in their order, and one
        that had the same place among the others in the last three rankings stands there.
    """
    new = tuple(dict.fromkeys(last[-1])) if last else ()
    here = [name for name in dict.fromkeys(shown) if name in set(new)]
    order = [*here, *(name for name in new if name not in set(here))]
    seen = last[-VIEWS_HELD:]
    if len(seen) < VIEWS_HELD:
        return tuple(order)
    stayed = set(new).intersection(*map(set, seen))
    places = [{name: i for i, name in enumerate(n for n in dict.fromkeys(one) if n in stayed)} for one in seen]
    settled = {places[-1][name]: name for name in stayed if len({place[name] for place in places}) == 1}
    others = iter([name for name in order if name in stayed and name not in set(settled.values())])
    moved = iter([settled[i] if i in settled else next(others) for i in range(len(stayed))])
    return tuple(next(moved) if name in stayed else name for name in order)


def as_shown(ranked: Sequence[str], shown: Sequence[str]) -> tuple[str, ...]:
    """``ranked`` in the order that is on screen; what is not on screen yet follows."""
    return held(shown, [ranked])
