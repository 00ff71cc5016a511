"""The words of ``m3probe tui`` as the feed that they ask for."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from m3probe.comparing import AskedRun
from m3probe.errors import UsageError
from m3probe.model.view import Feed, View
from m3probe.viewing.offline import PathFeed
from m3probe.workload import Workload

MOST_POLLS = 8
"""Polls of a server before its report is printed as text without one: rates need two, a report a few."""
_OF_A_SERVER = ("header", "cacert", "inject", "take_over", "out")


def feed_of_words(args: argparse.Namespace, workload: Workload) -> Feed:
    """Files, or a server.

    Raises:
        UsageError: a server among files, or an option of the one for the other.
    """
    words: list[str] = args.paths
    targets = [word for word in words if is_server(word)]
    if targets and len(words) > 1:
        raise UsageError(f"{targets[0][:80]} is a server: it is watched alone", next_move="Name one server, or files")
    if targets:
        if args.compare:
            raise UsageError("--compare holds recordings against each other", next_move="Record the server with attach")
        return _server(args)
    alone = [name for name in _OF_A_SERVER if getattr(args, name)]
    if alone:
        option = alone[0].replace("_", "-")
        raise UsageError(f"--{option} says how a running server is reached", next_move="Give its address or its pid")
    paths = [Path(word) for word in words]
    if args.compare:
        return PathFeed(paths[-1:], workload, [AskedRun((path,), "", workload) for path in paths])
    return PathFeed(paths, workload)


def is_server(word: str) -> bool:
    """An address, a pid, or ``auto``; a file of that name is a file."""
    if word.startswith(("http://", "https://")):
        return True
    number = word.isascii() and word.isdecimal() and len(word) <= 10 and int(word) > 0
    return (number or word == "auto") and not Path(word).exists()


def settled(feed: Feed) -> View:
    """Poll until there is a report, or until it is clear that there will be none."""
    view = feed.poll(lambda *_: None, lambda: False)
    for _ in range(MOST_POLLS):
        if view.report is not None or view.next_poll_s is None:
            break
        time.sleep(min(view.next_poll_s, 5.0))
        view = feed.poll(lambda *_: None, lambda: False)
    return view


def _server(args: argparse.Namespace) -> Feed:
    from m3probe.viewing import feed_of

    return feed_of(args.paths[0], headers=dict(args.header), cacert=args.cacert, out=args.out)
