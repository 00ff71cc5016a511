"""Bindings of a screen, made of the action table."""

from __future__ import annotations

from collections.abc import Iterable

from textual.binding import Binding, BindingType

from m3probe.tui.actions import ACTIONS, Action


def bindings(actions: Iterable[Action] = ACTIONS) -> list[BindingType]:
    """One binding a key."""
    return [
        Binding(key, action.call, action.words, show=False, id=f"{action.id}.{key}", tooltip=action.tooltip,
                priority=action.priority)
        for action in actions
        for key in action.keys
    ]  # fmt: skip


LEAVING: list[BindingType] = [Binding("ctrl+c", "app.interrupt", "stop", show=False, priority=True)]
"""Keys of the whole viewer that a modal screen must name itself: Textual stops looking for bindings there."""
