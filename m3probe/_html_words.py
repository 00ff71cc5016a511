"""``--html``: the option, the same for every verb that has a page."""

from __future__ import annotations

import argparse

from m3probe import _values


def add_html(parser: argparse._ActionsContainer) -> None:
    """Add the option."""
    words = "also write a page for a browser: one file that opens offline"
    parser.add_argument("--html", type=_values.path, metavar="FILE", help=words)
