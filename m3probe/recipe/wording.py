"""What a command is read against: files beside it, how deep one command may stand in another, how an error leaves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from m3probe.errors import M3ProbeError, UsageError
from m3probe.recipe.asked import cut

MOST_NAMED = 20  # names in one sentence
DEEPEST = 4  # bash -c in docker run in bash -c: nobody nests more


@dataclass(frozen=True, slots=True)
class Ground:
    """Where a command stands.

    Args:
        folder: where relative file names are looked up; None: the working folder.
        choice: the service or number that the user chose; None: none.
        depth: shells around this command.
    """

    folder: Path | None = None
    choice: str | None = None
    depth: int = 0

    def deeper(self) -> Ground:
        """The same inside one more shell.

        Raises:
            UsageError: more than ``DEEPEST`` shells.
        """
        if self.depth >= DEEPEST:
            raise UsageError(f"more than {DEEPEST} shells inside each other", next_move="Give the inner command itself")
        return replace(self, depth=self.depth + 1, choice=None)

    def file(self, name: str) -> Path:
        """A file that a command names."""
        path = Path(name)
        return path if path.is_absolute() or self.folder is None else self.folder / path


def listed(names: Sequence[str], between: str = ", ") -> str:
    """Names for one sentence: at most ``MOST_NAMED``, and how many more."""
    shown = between.join(cut(name) for name in names[:MOST_NAMED])
    return shown if len(names) <= MOST_NAMED else f"{shown}{between}and {len(names) - MOST_NAMED:,} more"


def numbered(choice: str, most: int) -> int | None:
    """A choice by its number as an index from 0; None where it is no number from 1 to ``most``."""
    digits = choice.lstrip("0")
    if not (choice.isascii() and choice.isdecimal() and 0 < len(digits) < 10):
        return None
    return int(digits) - 1 if int(digits) <= most else None


@contextmanager
def doorway(where: str, next_move: str) -> Iterator[None]:
    """Every error that leaves says where and the next move, in a sentence of bounded length."""
    try:
        yield
    except M3ProbeError as error:
        at, move = error.where or where, error.next_move or next_move
        if (at, move) == (error.where, error.next_move) and len(error.sentence()) <= 1_950:
            raise
        at = at if len(at) <= 250 else f"...{at[-247:]}"
        raise type(error)(cut(error.what, 1_500), where=at, next_move=cut(move, 190)) from error
    except RecursionError as error:
        raise UsageError(
            "more levels inside each other than can be followed", where=where, next_move=next_move
        ) from error
