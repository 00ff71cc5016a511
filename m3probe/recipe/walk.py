"""The variables of a script, followed up to one command.

What stands under an ``if``, ``case``, loop or behind ``&&`` is not taken and told, except where the command stands
under the same condition. What runs in a process of its own, as ``( )`` does, changes nothing. Functions are followed
where they are called.
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from m3probe.errors import UsageError
from m3probe.recipe.asked import Given
from m3probe.recipe.blocks import Command, Path, Script
from m3probe.recipe.effects import Effects, program
from m3probe.recipe.expand import Scope

MOST_STEPS = 100_000  # commands followed, calls of functions included; a call bomb has more
MOST_CALLS = 50  # functions inside each other
MOST_EVALS = 4


@dataclass(slots=True)
class Walk:
    """A script followed up to one command."""

    script: Script
    command: Command | None
    scope: Scope
    start: Given
    effects: Effects = field(init=False)
    steps: int = 0
    calls: list[int] = field(default_factory=list)
    now: int = 0
    """Blocks before the command at the top that led here: functions defined by then exist."""
    around: set[tuple[int, int]] = field(default_factory=set)
    processes: set[int] = field(default_factory=set)
    bodies: dict[int, list[Command]] = field(default_factory=dict)
    reached: bool = False
    left: str | None = None
    """The function that runs has returned: empty, or under the condition at this place."""
    evals: int = 0
    behind: bool = False
    """What a loop runs after the command is followed now."""

    def __post_init__(self) -> None:
        self.effects = Effects(self.scope, self.start, searching=self.command is None)
        self.bodies = {number: [] for numbers in self.script.functions.values() for number in numbers}
        for command in self.script.commands:
            body = self._body_of(command)
            if body is not None:
                self.bodies[body].append(command)

    def to_command(self) -> None:
        """Follow everything that runs before the command, functions where they are called."""
        assert self.command is not None
        body = self._body_of(self.command)
        top = [command for command in self.script.commands if self._body_of(command) is None]
        sites = [self.command, *(self._sites(top, body, set(), 0, 0) if body is not None else [])]
        for site in sites:
            self.around |= set(site.path)
            self.processes |= set(site.within)
        for command in top:
            self.step(command, "")
            if self.reached:
                break
        if not self.reached and body is not None:
            # nothing calls it: every function of the script may exist
            self.now = sys.maxsize
            self._call(body, "")
        self._rounds(sites, top)

    def _sites(self, commands: Sequence[Command], wanted: int, seen: set[int], now: int, depth: int) -> list[Command]:
        """The calls that lead to a function's body, innermost first; the first way there is."""
        for command in commands if depth < MOST_CALLS else ():
            numbers = self.script.functions.get(command.words[0].name, [])
            at = bisect_right(numbers, now or command.blocks)
            if not at or numbers[at - 1] in seen:
                continue
            if numbers[at - 1] == wanted:
                return [command]
            seen.add(numbers[at - 1])
            found = self._sites(self.bodies[numbers[at - 1]], wanted, seen, now or command.blocks, depth + 1)
            if found:
                return [*found, command]
        return []

    def _rounds(self, sites: Sequence[Command], top: Sequence[Command]) -> None:
        """A loop around the command runs what stands behind it too, before its next round."""
        self.behind, self.reached = True, False
        for site in sites:
            loops = {number for number, _ in site.path if number in self.script.loops}
            if not loops:
                continue
            body = self._body_of(site)
            behind = list(top if body is None else self.bodies[body])
            place = self.scope.place(site.line)
            for command in behind[behind.index(site) + 1 :]:
                if any(number in loops for number, _ in command.path):
                    self.step(command, place)

    def _body_of(self, command: Command) -> int | None:
        return next((number for number, _ in reversed(command.path) if number in self.bodies), None)

    def _called(self, command: Command) -> int | None:
        """The body that runs where this command calls a function: its last definition before that moment."""
        words = program(command.words)
        numbers = self.script.functions.get(words[0].name, []) if words else []
        at = bisect_right(numbers, self.now if self.calls else command.blocks)
        return numbers[at - 1] if at else None

    def step(self, command: Command, maybe: str) -> None:
        """One command, or the function that it calls."""
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise self._too_much(f"more than {MOST_STEPS:,} commands", command)
        if command is self.command:
            self.reached = not self.behind
            return
        runs = self._runs(command.path)
        if runs is False or any(number not in self.processes for number in command.within):
            return
        place = self.scope.place(command.line)
        if command.words[0].name in ("return", "exit"):
            self._leaves(command, place, sure=bool(runs), certain=bool(runs) and not maybe)
            return
        maybe = maybe or ("" if runs else place)
        body = self._called(command)
        if body is not None and body not in self.calls:
            self.now = self.now if self.calls else command.blocks
            self._call(body, maybe)
            return
        script = self.effects.follow(command, maybe)
        if script is not None:
            self._eval(script, command, maybe)

    def _call(self, body: int, maybe: str) -> None:
        if len(self.calls) >= MOST_CALLS:
            raise self._too_much(f"functions call each other more than {MOST_CALLS} deep", self.bodies[body][0])
        before = self._leaving(None)
        self.calls.append(body)
        self.around.add((body, 0))
        self.effects.frames.append({})
        for inner in self.bodies[body]:
            self.step(inner, maybe or self.left or "")
            if self.reached:
                return
            if self.left == "":
                break
        self.effects.leave()
        self.around.discard((body, 0))
        self.calls.pop()
        self._leaving(before)

    def _leaving(self, now: str | None) -> str | None:
        before, self.left = self.left, now
        return before

    def _too_much(self, what: str, command: Command) -> UsageError:
        return UsageError(what, where=self.scope.place(command.line), next_move="Give the vllm command after --")

    def _leaves(self, command: Command, place: str, *, sure: bool, certain: bool) -> None:
        """``return`` ends the function; under a condition what follows hangs on it, but for a return with an error."""
        if command.words[0].name == "exit":
            self.effects.unread += [f"the script ends before the command ({place})"] if certain else []
            return
        status = command.words[1].name if len(command.words) > 1 else "0"
        if self.calls and sure:
            self.left = ""
        elif self.calls and (not status.isdecimal() or not status.strip("0")):
            self.left = place if self.left is None else self.left

    def _eval(self, script: Script, command: Command, maybe: str) -> None:
        place = self.scope.place(command.line)
        if self.evals >= MOST_EVALS or script.functions:
            self.effects.unread.append(f"eval is not followed into functions or deeper than {MOST_EVALS} ({place})")
        self.evals += 1
        for inner in script.commands if self.evals <= MOST_EVALS else ():
            if not inner.within:
                here = replace(inner, path=command.path, blocks=command.blocks, within=command.within)
                self.step(here, maybe or (place if inner.path else ""))
        self.evals -= 1

    def _runs(self, path: Path) -> bool | None:
        """True: whenever the command runs; False: never then (another branch); None: under a condition."""
        blocks = dict(self.around)
        sure = True
        for number, branch in path:
            if number in blocks and blocks[number] != branch:
                return False
            sure = sure and number in blocks
        return True if sure else None
