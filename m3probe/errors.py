"""Every error a user can meet, each with what, where and the next move.

M3ProbeError
 +-- UsageError        exit 2  wrong words on the command line or in a rules file
 |    +-- MissingExtra           what was asked for needs a package that is not installed
 +-- UnreadableInput   exit 3  missing, unreadable, or not what it should be
 |    +-- ForeignInput           sound, but of another program: no loss where it lies beside a trace
 +-- UnwrittenResult   exit 3  the result cannot be written
"""


class M3ProbeError(Exception):
    """Base of all expected errors; only ``m3probe.cli`` prints one.

    Args:
        what: one sentence saying what is wrong.
        where: file, option or position; empty when there is none.
        next_move: what the user can do about it.
    """

    exit_code = 70

    def __init__(self, what: str, *, where: str = "", next_move: str = "") -> None:
        self.what = what
        self.where = where
        self.next_move = next_move
        super().__init__(self.sentence())

    def sentence(self) -> str:
        """The error as one line: where, what, next move."""
        head = f"{self.where}: {self.what}" if self.where else self.what
        return f"{head}. {self.next_move}" if self.next_move else f"{head}."


class UsageError(M3ProbeError):
    """The command line or a rules file asks for something that does not exist."""

    exit_code = 2


class MissingExtra(UsageError):
    """What was asked for needs a package that m3probe does not install by itself.

    Args:
        package: as it is imported.
        extra: the one of m3probe's extras that brings it.
        why: what its import said.
    """

    def __init__(self, package: str, extra: str, why: object) -> None:
        super().__init__(
            f"{package} cannot be imported ({why})",
            next_move=f"pip install 'm3probe[{extra}]', or from a clone pip install '.[{extra}]'",
        )


class UnreadableInput(M3ProbeError):
    """An input is missing, cannot be opened, or is not what it should be."""

    exit_code = 3


class ForeignInput(UnreadableInput):
    """An input is whole and of another program; found in a folder it is left out like any other file."""


class UnwrittenResult(M3ProbeError):
    """A file that was asked for cannot be written; what was there before still is."""

    exit_code = 3
