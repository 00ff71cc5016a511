"""Pages of the command line: every verb with every option, read from its parser."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Iterator

from words import code, page, plain, table, toctree

from m3probe._arguments import Parser, parser_of

_WIDTH = 84


def verbs() -> dict[str, tuple[Parser, str]]:
    """Parser and one line of help of each verb, in the order of ``--help``."""
    (choices,) = [each for each in parser_of({})._actions if isinstance(each, argparse._SubParsersAction)]  # noqa: SLF001
    helps = {each.dest: each.help or "" for each in choices._choices_actions}  # noqa: SLF001
    return {name: (parser, helps[name]) for name, parser in choices.choices.items()}


def pages() -> dict[str, str]:
    """Markdown by file name of the site."""
    found = verbs()
    made = {f"commands/{name}.md": _verb(name, parser) for name, (parser, _) in found.items()}
    rows = [[f"[`m3probe {name}`]({name}.md)", plain(words)] for name, (_, words) in found.items()]
    made["commands/index.md"] = page(
        "# Command line",
        "Every verb and option of this release, read from the parser itself. `m3probe VERB --help` prints the same. "
        "[Exit status](../exit-codes.md).",
        table(["verb", "does"], rows),
        toctree(found),
    )
    return made


def _verb(name: str, parser: Parser) -> str:
    return page(
        f"# m3probe {name}",
        plain(parser.description),
        f"```text\n{_usage(parser)}\n```",
        f"```{{program}} m3probe {name}\n```",
        *_groups(parser),
    )


def _usage(parser: Parser) -> str:
    parser.formatter_class = lambda prog: argparse.HelpFormatter(prog, width=_WIDTH)
    return textwrap.dedent(parser.format_usage()).strip()


def _groups(parser: Parser) -> Iterator[str]:
    """A heading for each group, an entry for each option; ``--help`` itself is left out."""
    titles = {"positional arguments": "Arguments", "options": "Options"}
    for group in parser._action_groups:  # noqa: SLF001
        actions = [each for each in group._group_actions if not isinstance(each, argparse._HelpAction)]  # noqa: SLF001
        if actions:
            title = titles.get(group.title or "", (group.title or "").capitalize())
            yield f"## {plain(title)}"
            yield from map(_option, actions)


def _option(action: argparse.Action) -> str:
    """An entry that Sphinx's search and index know."""
    names = list(action.option_strings)
    value = _value(action)
    spelt = ", ".join(f"{name} {value}".strip() for name in names) if names else value
    return f"````{{option}} {spelt}\n{' '.join(_said(action))}\n````"


def _value(action: argparse.Action) -> str:
    """What is typed behind the name: ``FILE``, ``NAME PATH ...``."""
    if action.nargs == 0 or isinstance(action, argparse.BooleanOptionalAction):
        return ""
    metavar = action.metavar or "{" + ",".join(map(str, action.choices or ())) + "}"
    shown = " ".join(metavar) if isinstance(metavar, tuple) else metavar
    if action.nargs in ("?", "*"):
        return f"[{shown}{' ...' if action.nargs == '*' else ''}]"
    return f"{shown} ..." if action.nargs == "+" else shown


def _said(action: argparse.Action) -> Iterator[str]:
    words = action.help or ""
    first = words.split(" ", 1)[0]
    yield plain(words[:1].upper() + words[1:] if first.isalpha() else words) + "."
    if action.choices:
        yield f"One of {', '.join(code(str(each)) for each in action.choices)}."
    if isinstance(action, argparse._AppendAction):  # noqa: SLF001
        yield "May be given several times."
    if action.required and action.option_strings:
        yield "Required."
    if "default" not in words and action.option_strings and not action.required:
        yield f"Default: {_default(action)}."


def _default(action: argparse.Action) -> str:
    value = action.default
    if value is False:
        return "off"
    return "none" if value is None or value == [] else plain(value)
