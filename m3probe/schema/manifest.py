"""``manifest.json`` of a recording's folder."""

from __future__ import annotations

import msgspec


class Manifest(msgspec.Struct, omit_defaults=True, kw_only=True):
    """What can be known of a recording before its files are read; written once, by whoever comes first.

    ``started``: wall clock, UTC, ``2026-01-31T12:00:00Z``. ``command``: command line of the process that wrote it, without
    the values of options that hold keys. ``id``: one for all processes of a server, or of one ``attach``.
    """

    format: int = 0
    """Always written by this version: a default that equals it would be left out, and read as the next one's."""
    m3probe: str = ""
    id: str = ""
    started: str = ""
    host: str = ""
    pid: int = -1
    command: tuple[str, ...] = ()
