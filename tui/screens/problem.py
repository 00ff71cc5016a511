"""Something went wrong, or wants a yes: title, cause, next move; the pages below stay as they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen

from m3probe.errors import M3ProbeError
from m3probe.present.sheets.sheet import Said, Sheet
from m3probe.tui.screens._bound import LEAVING
from m3probe.tui.widgets.page import Page


@dataclass(frozen=True, slots=True)
class Problem:
    """``question``: y answers yes, and nothing is copied."""

    title: str
    cause: str
    next_move: str
    question: bool = False
    foot: str = "y copies this   Esc closes it"

    @classmethod
    def of(cls, error: M3ProbeError, *, last: bool) -> Problem:
        """An error that says what to do; ``last``: there is no page below it."""
        cause = f"{error.where}: {error.what}" if error.where else error.what
        foot = "y copies this   q leaves" if last else "y copies this   Esc closes it"
        return cls("Nothing can be shown" if last else "Problem", cause, error.next_move, foot=foot)


class ProblemScreen(ModalScreen[bool]):
    """Closed by Escape; of a question the answer is yes only by y."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,enter", "leave", "close", show=False),
        Binding("y", "yes", "copy", show=False),
        Binding("q,ctrl+q", "app.quit", "quit", show=False),
        *LEAVING,
        Binding("j,down", "scroll(1)", "down", show=False),
        Binding("k,up", "scroll(-1)", "up", show=False),
    ]

    def __init__(self, problem: Problem) -> None:
        super().__init__()
        self.problem = problem

    def compose(self) -> ComposeResult:
        """A box with a frame, so that it stands out without colour."""
        with Vertical(id="box", classes="" if self.problem.question else "-bad"):
            yield Page(id="problem")

    def on_mount(self) -> None:
        """The box is as high as its text."""
        it = self.problem
        mark = "!" if it.question else "bad"
        said = [Said(it.title, mark="warn" if it.question else mark), Said(""), Said(it.cause), Said("")]
        said += [Said(it.next_move), Said("")] if it.next_move else []
        foot = "y yes   Esc no" if it.question else it.foot
        page = self.query_one(Page)
        self._sheet = Sheet(it.title, (*said, Said(foot, dim=True)))
        page.show(self._sheet)
        self._fit()
        page.focus()

    def on_resize(self) -> None:
        """Another width, another height."""
        self._fit()

    def _fit(self) -> None:
        page = self.query_one(Page)
        page.parts.width = max(20, min(72, int(self.app.size.width * 0.96)) - 6)
        page.parts.laid()
        page.styles.height = min(page.parts.height, max(4, int(self.app.size.height * 0.9) - 4))

    def action_leave(self) -> None:
        """No, or read."""
        self.dismiss(result=False)

    def action_yes(self) -> None:
        """Yes, or copy it."""
        if self.problem.question:
            self.dismiss(result=True)
            return
        it = self.problem
        self.app.copy_to_clipboard("\n\n".join(filter(None, (f"**{it.title}**", it.cause, it.next_move))) + "\n")

    def action_scroll(self, by: int) -> None:
        """A long cause."""
        self.query_one(Page).move(by)
