"""The words of ``m3probe tui`` as the feed that they ask for."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from m3probe.comparing import AskedRun
from m3probe.errors import UsageError
from m3probe.model.view import Feed, View
from m3probe.viewing import feed_of
from m3probe.viewing.follow import FollowFeed, is_recording
from m3probe.viewing.offline import PathFeed
from m3probe.workload import Workload

MOST_POLLS = 8
"""Polls of a server before its report is printed as text without one: rates need two, a report a few."""
_OF_A_SERVER = ("header", "cacert", "out", "inject", "take_over")


def feed_of_words(args: argparse.Namespace, workload: Workload) -> Feed:
    """Files, runs that are compared, or a server.

    Raises:
        UsageError: a server among files, an option of the one for the other, a run with nothing to be held against.
    """
    words: list[str] = args.paths
    servers = [word for word in words if is_server(word)]
    foreign = [word for word in words if "://" in word and word not in servers and not Path(word).exists()]
    if foreign:
        raise UsageError("no such address is watched", where=foreign[0][:200], next_move="Give http(s)://HOST:PORT")
    if args.compare:
        if servers:
            raise UsageError("--compare holds recordings against each other", next_move="Record the server with attach")
        if len(words) < 2:
            raise UsageError("--compare needs two runs or more, got 1", next_move="Name one more: a folder is one run")
        paths = [Path(word) for word in words]
        return PathFeed(paths[-1:], workload, [AskedRun((path,), "", workload) for path in paths])
    if servers and len(words) > 1:
        raise UsageError("a server is looked at alone", where=servers[0][:200], next_move="Name it and nothing else")
    if servers:
        return feed_of(
            words[0],
            headers=dict(args.header),
            cacert=args.cacert,
            out=args.out,
            inject=args.inject,
            take_over=args.take_over,
        )
    return _files(args, [Path(word) for word in words], workload)


def is_server(word: str) -> bool:
    """An address, a pid, or ``auto``; a file of that name is a file."""
    if word.startswith(("http://", "https://")):
        return True
    return (word == "auto" or (word.isascii() and word.isdecimal())) and not Path(word).exists()


def _files(args: argparse.Namespace, paths: list[Path], workload: Workload) -> Feed:
    alone = [name.replace("_", "-") for name in _OF_A_SERVER if getattr(args, name)]
    if alone:
        raise UsageError(f"--{alone[0]} says how a running server is reached", next_move="Give its address or its pid")
    if len(paths) == 1 and is_recording(paths[0]):
        return FollowFeed(paths[0], workload)
    return PathFeed(paths, workload)


def settled(feed: Feed) -> View:
    """Poll until there is a report, or until it is clear that there will be none."""
    view = feed.poll(lambda *_: None, lambda: False)
    for _ in range(MOST_POLLS):
        if view.report is not None or view.next_poll_s is None:
            break
        time.sleep(min(view.next_poll_s, 5.0))
        view = feed.poll(lambda *_: None, lambda: False)
    return view
