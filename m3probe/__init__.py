"""m3probe: evidence about where a vLLM server's time goes, and whether its fast paths ran.

From Python: ``recording = m3probe.open_recording("profile/")``, then ``m3probe.analyze(recording)`` (docs/api.md). A name
is loaded when it is first asked for: guests inside vLLM import this package too, and need the standard library alone.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from m3probe.api import analyze, compare, inspect, judge, open_recording, to_json, to_markdown, to_text
    from m3probe.asserting import Opened
    from m3probe.errors import M3ProbeError, MissingExtra, UnreadableInput, UsageError
    from m3probe.model.compare_report import CompareReport
    from m3probe.model.findings import Bound, Evidence, Finding
    from m3probe.model.judgement import Judgement, RuleResult
    from m3probe.model.recording import Recording
    from m3probe.model.report import NextBottleneck, Report
    from m3probe.model.tables import Table
    from m3probe.pipeline import Inspection
    from m3probe.schema.verdicts import RuleOutcome

__version__ = "0.1.0.dev0"

__all__ = [
    "Bound",
    "CompareReport",
    "Evidence",
    "Finding",
    "Inspection",
    "Judgement",
    "M3ProbeError",
    "MissingExtra",
    "NextBottleneck",
    "Opened",
    "Recording",
    "Report",
    "RuleOutcome",
    "RuleResult",
    "Table",
    "UnreadableInput",
    "UsageError",
    "__version__",
    "analyze",
    "compare",
    "inspect",
    "judge",
    "open_recording",
    "to_json",
    "to_markdown",
    "to_text",
]

# What type checkers read above, for Python; a test holds both against each other.
_FROM = {
    "m3probe.api": "analyze compare inspect judge open_recording to_json to_markdown to_text",
    "m3probe.asserting": "Opened",
    "m3probe.errors": "M3ProbeError MissingExtra UnreadableInput UsageError",
    "m3probe.model.compare_report": "CompareReport",
    "m3probe.model.findings": "Bound Evidence Finding",
    "m3probe.model.judgement": "Judgement RuleResult",
    "m3probe.model.recording": "Recording",
    "m3probe.model.report": "NextBottleneck Report",
    "m3probe.model.tables": "Table",
    "m3probe.pipeline": "Inspection",
    "m3probe.schema.verdicts": "RuleOutcome",
}


def __getattr__(name: str) -> Any:
    """A public name, from where it stands.

    Raises:
        AttributeError: no such name.
    """
    for module, names in _FROM.items():
        if name in names.split():
            found = globals()[name] = getattr(import_module(module), name)
            return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
