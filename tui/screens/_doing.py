"""What keys do in a page: moving, choosing, copying; where they lead is the screen's."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

from textual.screen import Screen

from m3probe.present.sheets.sheet import Sheet
from m3probe.tui import markdown
from m3probe.tui.desk import Desk
from m3probe.tui.widgets.page import Page
from m3probe.tui.widgets.prompt import Prompt

PROFILE_STEPS = 8


class Doing(Screen[None]):
    """Actions of the table that move in a page or change what is seen of it."""

    desk: Desk
    page: Page
    sheet: Sheet

    def go(self, target: str, *, fresh: bool = False) -> None:
        """Show another page."""
        raise NotImplementedError

    def refresh_view(self) -> None:
        """Show the same page anew."""
        raise NotImplementedError

    def around(self) -> None:
        """Head and foot."""
        raise NotImplementedError

    def crumbs(self) -> tuple[str, ...]:
        """Titles of the levels."""
        raise NotImplementedError

    def say(self, text: str) -> None:
        """For a moment."""
        raise NotImplementedError

    # --- moving ----------------------------------------------------------------------------------------------

    def action_down(self) -> None:
        """Next line."""
        self.page.move(1)

    def action_up(self) -> None:
        """Previous line."""
        self.page.move(-1)

    def action_page_down(self) -> None:
        """One screen further."""
        self.page.page(1)

    def action_page_up(self) -> None:
        """One screen back."""
        self.page.page(-1)

    def action_top(self) -> None:
        """First line."""
        self.page.end(last=False)

    def action_bottom(self) -> None:
        """Last line."""
        self.page.end(last=True)

    def action_next_pane(self) -> None:
        """Next table or chart."""
        self.page.pane(1)

    def action_previous_pane(self) -> None:
        """Previous one."""
        self.page.pane(-1)

    def action_zoom(self) -> None:
        """One block alone, or all."""
        self.page.zoom()

    # --- other pages -----------------------------------------------------------------------------------------

    def action_findings(self) -> None:
        """Every finding."""
        self.go("findings", fresh=True)

    def action_compare(self) -> None:
        """The comparison."""
        self.go("compare", fresh=True)

    def action_trail(self) -> None:
        """The time line."""
        self.go("steps", fresh=True)

    def action_sources(self) -> None:
        """Where figures come from."""
        self.go("sources", fresh=True)

    # --- what is seen of a page ------------------------------------------------------------------------------

    def action_filter(self) -> None:
        """Begin to type."""
        prompt = self.query_one("#filter", Prompt)
        part = self.page.grid
        prompt.text = part.order.needle if part else ""
        prompt.add_class("-shown")
        prompt.update()
        prompt.focus()

    def action_sort(self) -> None:
        """By the next column."""
        self.page.sort()

    def action_invert(self) -> None:
        """The other way round."""
        self.page.invert()

    def action_rank(self) -> None:
        """The next rank."""
        self._chosen("rank")

    def action_phase(self) -> None:
        """The next phase."""
        self._chosen("phase")

    def action_verdict(self) -> None:
        """The next verdict."""
        self._chosen("verdict")

    def action_pause(self) -> None:
        """Hold the figures, or go on."""
        self.desk.pause()
        self.refresh_view()

    def action_window(self) -> None:
        """How far figures look back."""
        self.say(self.desk.look_back())
        self.around()

    def action_earlier(self) -> None:
        """Back in time."""
        self._scrub(-1)

    def action_later(self) -> None:
        """Forward in time."""
        self._scrub(1)

    # --- taking it away --------------------------------------------------------------------------------------

    def action_copy(self) -> None:
        """The page's own words, else the line under the cursor, else the page."""
        line, grid = self.page.line, self.page.grid
        if self.sheet.copy or self.sheet.whole or line is None or grid is None:
            self.app.copy_to_clipboard(markdown.page(self.sheet, self.crumbs()))
            self.say("the page is copied as Markdown")
        else:
            self.app.copy_to_clipboard(markdown.line(grid.grid, line))
            self.say("the line is copied as Markdown")

    def action_export(self) -> None:
        """Two new files in the working folder."""
        from m3probe.present.json import report_json

        stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(self.desk.clock()))
        view = self.desk.view
        try:
            told = [self.desk.save(f"m3probe-{stamp}.md", markdown.page(replace(self.sheet, copy=""), self.crumbs()))]
            if view is not None and view.report is not None:
                told.append(self.desk.save(f"m3probe-{stamp}.json", report_json(view.report) + "\n"))
        except OSError as error:
            from m3probe.tui.screens.problem import Problem, ProblemScreen

            why = error.strerror or str(error)
            self.app.push_screen(
                ProblemScreen(Problem("Not written", why, "Start m3probe in a folder that you may write to."))
            )
            return
        self.say(f"written: {', '.join(told)}")

    def action_profile(self) -> None:
        """Ask first: a profiler costs the server time."""
        from m3probe.tui.screens.problem import Problem, ProblemScreen

        cause = f"{PROFILE_STEPS} steps under the profiler: the server is slower for as long as they take."
        asked = Problem(
            "Ask the server for a profiler window?", cause, "y asks for it, Escape does not.", question=True
        )
        self.app.push_screen(ProblemScreen(asked), self._profile)

    # --- inside ----------------------------------------------------------------------------------------------

    def _profile(self, yes: bool | None) -> None:
        window = getattr(self.desk.feed, "window", None)
        if not yes or window is None:
            return

        def work() -> None:
            told = str(window(PROFILE_STEPS))
            self.app.call_from_thread(self.say, told)

        threading.Thread(target=work, name="m3probe-window", daemon=True).start()

    def _chosen(self, what: str) -> None:
        self.say(self.desk.choose(what))
        self.refresh_view()

    def _scrub(self, by: int) -> None:
        self.desk.scrub(by)
        self.app.call_later(getattr(self.app, "poll_now", self.around))

    # --- over the page ---------------------------------------------------------------------------------------

    def action_help(self) -> None:
        """The keys."""
        from m3probe.tui.screens.help import HelpScreen

        self.app.push_screen(HelpScreen(self.page.grid.grid.title if self.page.grid else ""))

    def action_palette(self) -> None:
        """Any action by its name."""
        from m3probe.tui.screens.palette import PaletteScreen

        self.app.push_screen(PaletteScreen(getattr(self, "can", lambda _: True)), self._run)

    async def _run(self, call: str | None) -> None:
        if call:
            await self.run_action(call if call != "quit" else "app.quit")

    def action_theme(self) -> None:
        """Dark or light."""
        from m3probe.tui.theme import DARK, LIGHT

        self.app.theme = LIGHT.name if self.app.theme == DARK.name else DARK.name
