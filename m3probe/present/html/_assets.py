"""What a page carries inside: its style, its script, and plotly.js as the installed plotly ships it."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files

PLOTLY = "plotly.min.js"


@cache
def own(name: str) -> str:
    """A file of this folder."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


@cache
def plotly() -> str:
    """plotly.js, 4.8 MB; read beside ``plotly`` without importing it, which takes longer than the whole report.

    Raises:
        FileNotFoundError: plotly is not installed whole.
    """
    from importlib.util import find_spec
    from pathlib import Path

    spec = find_spec("plotly")
    folders = spec.submodule_search_locations if spec else None
    for folder in folders or ():
        found = Path(folder, "package_data", PLOTLY)
        if found.is_file():
            return found.read_text(encoding="utf-8")
    raise FileNotFoundError(f"plotly's {PLOTLY} is not installed")


def digest(script: str) -> str:
    """A script as Content-Security-Policy names it: nothing that came in with a foreign name runs beside it."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
