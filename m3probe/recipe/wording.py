"""What a command is read against: files beside it, and how deep one command may stand in another."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from m3probe.errors import UsageError

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
