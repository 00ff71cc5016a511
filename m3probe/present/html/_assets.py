"""What a page carries inside: its style, its script, and plotly.js as the installed plotly ships it."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files
from pathlib import Path

PLOTLY = "plotly.min.js"


@cache
def own(name: str) -> str:
    """A file of this folder."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def plotly_file() -> Path | None:
    """Where plotly.js lies, beside ``plotly``, which is not imported: that takes longer than the whole report."""
    from importlib.util import find_spec

    try:
        spec = find_spec("plotly")
    except ValueError:  # a module without a spec stands in its place
        return None
    folders = spec.submodule_search_locations if spec else None
    return next((found for folder in folders or () if (found := Path(folder, "package_data", PLOTLY)).is_file()), None)


@cache
def plotly() -> str:
    """plotly.js, 4.8 MB.

    Raises:
        FileNotFoundError: plotly is not installed whole.
    """
    found = plotly_file()
    if found is None:
        raise FileNotFoundError(f"plotly's {PLOTLY} is not installed")
    return found.read_text(encoding="utf-8")


def digest(script: str) -> str:
    """A script as Content-Security-Policy names it: nothing that came in with a foreign name runs beside it."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
