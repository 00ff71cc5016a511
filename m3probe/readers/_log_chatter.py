"""Lines that state nothing and fill a log: requests, each engine step. Counted by one look at their beginning."""

from __future__ import annotations

import re

from m3probe.readers._log_gather import Gathered

_LABEL = rb"(?:\(([A-Za-z][\w ]{0,60}?) pid=\d{1,10}\) )?"
_ACCESS = re.compile(_LABEL + rb'INFO:     [\d.a-fA-F:\[\]]{3,60} - "')
_REQUEST = re.compile(
    _LABEL
    + rb"(DEBUG|INFO) +\d\d-\d\d \d\d:\d\d:\d\d \[(?:request_logger|logger|async_llm|core|loggers)\.py:\d{1,7}\] "
    rb"(?:Received request |Added request |Finished request |(?:Engine \d{1,6}: )?Iteration\()"
)


def takes(raw: bytes, found: Gathered) -> bool:
    """Whether it is one; it is counted then."""
    said = _ACCESS.match(raw)
    if said is not None:
        found.chatter(said[1], "")
        return True
    said = _REQUEST.match(raw)
    if said is None:
        return False
    found.chatter(said[1], said[2].decode())
    found.clock.see(raw)
    return True
