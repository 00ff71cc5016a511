"""Reports of given sections, and lines of their text."""

from m3probe.model.findings import Bound, Finding
from m3probe.model.report import Answer, Report


def only(*sections: object, findings: tuple[Finding, ...] = ()) -> Report:
    return Report("ok", (), Answer(sections, findings))  # type: ignore[arg-type]


def finding(place: int, high: float | None = None, *, trusted: bool = True) -> Finding:
    bound = None if high is None else Bound(0.0, high, "made up")
    return Finding(f"x.f{place}", "bytes", "", f"Claim {place} holds.", "", (), "", bound, trusted=trusted)


def line_with(text: str, words: str) -> str:
    """The first line that holds the words."""
    return next(line for line in text.splitlines() if words in line)
