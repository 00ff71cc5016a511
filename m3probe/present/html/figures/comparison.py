"""Everything that is drawn of a comparison but its trail, in the order of the page."""

from __future__ import annotations

from m3probe.model.view import View
from m3probe.present.html.figure import Figure
from m3probe.present.html.figures import (
    _compare_benchmark,
    _compare_change,
    _compare_contract,
    _compare_credit,
    _compare_laws,
    _compare_paths,
    _compare_ratios,
    _compare_steps,
)

PLOTS = {
    "contract": _compare_contract,
    "ratios": _compare_ratios,
    "change": _compare_change,
    "compared-paths": _compare_paths,
    "credit": _compare_credit,
    "step-times": _compare_steps,
    "benchmark": _compare_benchmark,
    "over": _compare_laws,
}


def figures(view: View) -> tuple[Figure, ...]:
    """All of them; none without runs that were compared."""
    return tuple(figure for module in PLOTS.values() for figure in module.figures(view))
