"""docs/tui.md and the viewer: every key and every state word is told there."""

import re

from tree import ROOT

from m3probe.model.view import Absent, Word
from m3probe.tui.actions import ACTIONS

PAGE = (ROOT / "docs" / "tui.md").read_text()


def test_every_key_is_told() -> None:
    told = set(re.findall(r"`([^`]+)`", PAGE)) | {"2", "3", "4"}  # `1` to `5`
    assert {action.shown for action in ACTIONS} <= told


def test_every_state_and_every_absence_has_its_word() -> None:
    assert [word for word in (*Word, *Absent) if word not in PAGE] == []
