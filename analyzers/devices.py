"""Where the time of each device goes, without steps and calls of the host, and what the input leaves unanswered."""

from __future__ import annotations

from m3probe.analyzers._asks import unanswered
from m3probe.analyzers._devices import device_rows
from m3probe.model.device_report import DevicesSection
from m3probe.model.recording import Recording
from m3probe.model.report import Answer
from m3probe.plugs import Analyzer


def judge(rec: Recording, _so_far: Answer) -> Answer:
    """Rows; what bounds them is ranked with all other time (``next_bottleneck``), so that none is counted twice."""
    return Answer((DevicesSection(device_rows(rec), unanswered(rec)),))


ANALYZER = Analyzer(title="Where does each device's time go?", order=12, judge=judge)
