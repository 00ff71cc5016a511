"""Where a viewer's views come from: a server's address, a process, a recording that grows, files that were read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from m3probe.attach.asked import Asked
    from m3probe.viewing.attached import PidFeed
    from m3probe.viewing.live import UrlFeed


def feed_of(
    target: str,
    *,
    headers: Mapping[str, str] | None = None,
    cacert: Path | None = None,
    out: Path | None = None,
    inject: bool = False,
    take_over: bool = False,
) -> UrlFeed | PidFeed:
    """The feed of a running server.

    Args:
        target: ``http(s)://...``: its /metrics are asked, and nothing else; with ``out``, ``inject`` or ``take_over``, and
            for a pid or ``auto``: its processes are recorded too.
        out: where the recording goes; None: a temporary folder that goes with the viewer.

    Raises:
        UsageError: the URL is none that a server can have.
    """
    by_url = target.startswith(("http://", "https://"))
    if by_url and not (out or inject or take_over):
        from m3probe.viewing.live import UrlFeed

        return UrlFeed(target, headers, cacert)
    from m3probe.attach.asked import Asked

    asked = Asked(target, out=out, headers=headers or {}, cacert=cacert, inject=inject, take_over=take_over)
    return feed_of_attach(asked)


def feed_of_attach(asked: Asked) -> PidFeed:
    """``attach --tui``: the recording that ``attach`` makes, looked at while it is made."""
    from m3probe.viewing.attached import PidFeed

    return PidFeed(asked)
