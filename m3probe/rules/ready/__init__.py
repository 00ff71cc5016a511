"""Rules files that come with m3probe, for ``extends`` and in the place of ``RULES``: one TOML file each."""

from __future__ import annotations

from pathlib import Path

_HERE = Path(__file__).parent


def ready() -> dict[str, Path]:
    """Name -> file, in the order of the names."""
    return {path.stem: path for path in sorted(_HERE.glob("*.toml"))}
