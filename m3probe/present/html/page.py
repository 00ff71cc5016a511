"""A page that opens from a file: its head and policy, trust first, its sections, and the evidence that they lead to."""

from __future__ import annotations

from collections.abc import Sequence

from m3probe import __version__
from m3probe.model.view import View
from m3probe.present.html._assets import digest, own, plotly
from m3probe.present.html._plots import plot
from m3probe.present.html._text import html
from m3probe.present.html.draw import block, blocks
from m3probe.present.html.linked import ROWS, linked
from m3probe.present.html.pen import Pen
from m3probe.present.html.section import Section, anchor
from m3probe.present.sheets.sheet import Said

EVIDENCE = "evidence"
"""Anchor of the part that holds all pages that others lead to."""
_THEME = "try{var t=localStorage.getItem('m3probe-theme');if(t)document.documentElement.dataset.theme=t}catch(e){}"
"""Before anything is drawn: a page that turns dark a moment later flashes."""


def page(view: View, title: str, banner: Sequence[Said], sections: Sequence[Section]) -> str:
    """The whole file.

    Args:
        view: of which the pages are made that lines of ``sections`` open; they follow in a part of their own.
        title: the run; what the file is called in a browser.
        banner: whether it can be trusted, above everything else.
        sections: from top to bottom, each in the table of contents.
    """
    more = linked(view, sections)
    here = {section.opens for section in sections} | set(more.sections)
    pen = Pen(here, more.why)
    body = "".join(_section(section, pen) for section in sections)
    body += _evidence(tuple(more.sections.values()), more.said(), pen)
    drawn = any(section.figures for section in sections)
    scripts = [*([plotly()] if drawn else []), own("script.js")]
    return "".join(
        (
            _head(title, scripts),
            '<body><a class="skip" href="#content">Skip to the report</a>',
            _top(title, sections, more.sections != {}),
            f'<main id="content"><section class="banner" aria-label="Trust">{blocks(banner, pen)}</section>',
            body,
            f"</main><footer>m3probe {html(__version__)}. This file asks nothing of a network.</footer>",
            *(f"<script>{script}</script>" for script in scripts),
            "</body></html>\n",
        )
    )


def _head(title: str, scripts: Sequence[str]) -> str:
    allowed = " ".join(map(digest, [_THEME, *scripts]))
    # plotly sets styles by itself and shows heat maps as data: images; nothing may be fetched from anywhere
    policy = (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        '<meta name="color-scheme" content="light dark"><meta name="referrer" content="no-referrer">'
        f'<link rel="icon" href="data:,"><title>{html(title)} - m3probe</title>'
        f"<style>{own('style.css')}</style><script>{_THEME}</script></head>"
    )


def _top(title: str, sections: Sequence[Section], evidence: bool) -> str:
    named = [(section.opens, section.title) for section in sections] + [(EVIDENCE, "Evidence")] * evidence
    links = "".join(f'<li><a href="#{html(anchor(opens))}">{html(name)}</a></li>' for opens, name in named)
    return (
        f'<header><h1>{html(title)}</h1></header><nav aria-label="Contents"><ul>{links}</ul></nav>'
        '<noscript><p class="noscript">Without JavaScript there are no plots, and tables show their first rows; '
        "the figures of every plot are in the table below it.</p></noscript>"
    )


def _section(section: Section, pen: Pen) -> str:
    asks = f'<p class="asks">{html(section.asks)}</p>' if section.asks else ""
    return (
        f'<section id="{html(anchor(section.opens))}"><h2>{html(section.title)}</h2>{asks}'
        f"{blocks(section.first, pen)}{''.join(plot(figure, pen) for figure in section.figures)}"
        f"{blocks(section.blocks, pen)}</section>"
    )


def _evidence(sections: Sequence[Section], said: Sequence[Said], pen: Pen) -> str:
    """The pages that others lead to, each folded until a link opens it."""
    if not sections:
        return ""
    each = "".join(
        f'<details class="page" id="{html(anchor(section.opens))}"><summary><h3>{html(section.title)}</h3></summary>'
        f"{blocks(section.blocks, pen, ROWS)}</details>"
        for section in sections
    )
    told = "".join(block(one, pen) for one in said)
    return f'<section id="{EVIDENCE}"><h2>Evidence</h2>{told}{each}</section>'
