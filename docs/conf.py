"""Sphinx reads this; ``docs/_site/build.py`` makes the pages that it reads and starts it."""

import re
from pathlib import Path

_INIT = Path(__file__).with_name("_site") / ".." / ".." / "m3probe" / "__init__.py"

project = "m3probe"
author = "the m3probe authors"
release = re.findall(r'__version__ = "([^"]+)"', _INIT.read_text(encoding="utf-8"))[0]
extensions = ["myst_parser"]
myst_enable_extensions = ["attrs_inline"]
# The anchors that the code host gives to headings, so that one link serves both.
myst_heading_anchors = 4
html_theme = "furo"
html_title = "m3probe"
html_static_path = ["_site/static"]
html_css_files = ["site.css"]
# `--json` must stay two hyphens.
smartquotes = False
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
# A block without a language is a command, a formula or output: nothing is guessed.
highlight_language = "text"
