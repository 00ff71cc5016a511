"""``--html FILE``: what is refused before the work, and the page written after it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from m3probe import _streams, _writing
from m3probe.errors import UsageError
from m3probe.present.escape import safe

if TYPE_CHECKING:
    from m3probe.model.compare_report import CompareReport
    from m3probe.model.recording import Recording
    from m3probe.model.report import Report

MEGABYTE = 1_000_000


def begin_page(out: Path | None, inputs: Iterable[Path]) -> None:
    """Tell before the work why the page cannot be written.

    Raises:
        UsageError: it would overwrite an input, or plotly is not installed.
        UnwrittenResult: nothing can be written there.
    """
    if out is None:
        return
    from m3probe.present.html._assets import plotly_file

    if plotly_file() is None:  # installed with --no-deps, as into an image that serves
        raise UsageError("--html needs plotly, which is not installed whole", next_move="pip install plotly")
    _writing.begin("--html", out, inputs)


def write_page(out: Path | None, made: Callable[[], str]) -> None:
    """Write the page and say on stderr where it is and its size; nothing where none was asked for.

    Args:
        out: the file; None: none.
        made: makes the page.

    Raises:
        UnwrittenResult: it cannot be written.
    """
    if out is not None:
        size = _writing.write_whole(out, made())
        _streams.put(sys.stderr, f"{safe(str(out))}: {size / MEGABYTE:.2f} MB, opens in a browser\n")


def report_page(paths: Sequence[Path], rec: Recording, report: Report) -> str:
    """The report as one HTML file."""
    from m3probe.present.html.document import report_html
    from m3probe.viewing.offline import title_of, view_of

    return report_html(view_of(title_of(paths), rec, report, None, time.time()))


def compare_page(compared: CompareReport) -> str:
    """A comparison as one HTML file."""
    from m3probe.model.view import View, Word
    from m3probe.present.html.compare_document import compare_html

    title = " against ".join((", ".join(run.name for run in compared.runs[1:]), compared.runs[0].name))
    return compare_html(View(title, Word.READ, time.time(), compare=compared))
