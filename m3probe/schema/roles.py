"""Which process of a server this is, and how much the probe does in it."""

from enum import IntEnum, StrEnum


class Role(StrEnum):
    """A process of a vLLM server, told by what it builds and not by its name (``comm`` is cut at 15 characters)."""

    API = "api"
    ENGINE = "engine"
    WORKER = "worker"
    HOST = "host"
    """``m3probe attach`` itself, outside of the server."""
    UNKNOWN = "unknown"


class Level(IntEnum):
    """``M3PROBE=0``, unset, ``M3PROBE=1``."""

    OFF = 0
    LEDGER = 1
    """Model map, dispatch facts and descriptors of graph capture, kept in memory; no work per step."""
    ARMED = 2


class Stage(StrEnum):
    """When a fact was seen: what it proves depends on it."""

    LOAD = "load"
    WARMUP = "warmup"
    CAPTURE = "capture"
    """Times the counted replays of its descriptor, it is an execution."""
    EAGER = "eager"
    TWIN = "twin"
    """A step that was made to run without replay, on request."""
