"""``assert --live`` on the real vLLM: rules that hold, one that a flag broke, one that cannot be judged, all given back."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from live_kit import mounted
from live_server import Server, prompt, serving
from live_starts import ONE_CORE_EACH
from tree import ROOT

from m3probe.schema.roles import Level

RULES = {
    "experts": 'path = "moe_backend"\nverdict = "executed"\nphase = "decode"',
    "second rank": 'path = "moe_backend"\nverdict = "executed"\nrank = 1',
    "agree": 'agree = "backends"',
    "graphs": 'path = "graph_replay"\nverdict = "executed"\nphase = "decode"',
    "kernels": 'family = "comm"\nper_step = 5',
}
"""Written for two ranks with graphs. Five all-reduces a step: the embedding, and two in each of two layers."""


PAUSE_S = 0.2
"""Between two batches: on two cores the ranks would leave nothing to the one who asks (88 s for one question)."""


@dataclass(frozen=True)
class Done:
    """One ``assert``."""

    status: int
    out: str
    err: str

    def line(self, number: int) -> str:
        """The line of one rule."""
        return next(line for line in self.out.splitlines() if f" rule {number}: " in line)


class Checked:
    """A server under a load that never ends, and what ``assert`` says of it."""

    def __init__(self, server: Server, folder: Path) -> None:
        self.server, self.folder = server, folder
        self._over = threading.Event()
        self._load = threading.Thread(target=self._requests)
        self._load.start()

    def _requests(self) -> None:
        number = 0
        while not self._over.wait(PAUSE_S):
            number += 1
            self.server.load([(prompt(number % 40, 20 + n), 6) for n in range(4)], at_once=4)

    def judged(self, *names: str, words: tuple[str, ...] = ("--steps", "30")) -> Done:
        """Rules by their names above, against the server as it runs."""
        (self.folder / "tmp").mkdir(exist_ok=True)
        rules = self.folder / "rules.toml"
        rules.write_text("".join(f"[[rule]]\n{RULES[name]}\n" for name in names))
        command = [sys.executable, "-P", "-m", "m3probe", "assert", str(rules), "--live", str(self.server.process.pid)]
        env = {k: v for k, v in os.environ.items() if k != "GITHUB_ACTIONS"} | {
            "M3PROBE_RUN": str(self.server.run), "TMPDIR": str(self.folder / "tmp"),
        }  # fmt: skip
        done = subprocess.run(
            [*command, *words], env=env, cwd=ROOT.parent, capture_output=True, text=True, check=False, timeout=180
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def hooks(self) -> dict[int, tuple[int, Level]]:
        """Hooks that stand in each process, and its level."""
        return {pid: (status.hooks, status.level) for pid, status in self.server.guests().items()}

    def stop(self) -> None:
        self._over.set()
        self._load.join()


def checked(folder: Path, model: Path, *flags: str, bind: str) -> Iterator[Checked]:
    site = mounted(folder / "site")
    with serving(folder, model, "--enforce-eager", *flags, site=site, VLLM_CPU_OMP_THREADS_BIND=bind) as server:
        found = Checked(server, folder)
        try:
            yield found
        finally:
            found.stop()


@pytest.fixture(scope="module")
def two_ranks(tmp_path_factory: pytest.TempPathFactory, tiny_models: Path) -> Iterator[Checked]:
    """As the rules want it, but for graphs, which --enforce-eager turned off."""
    folder = tmp_path_factory.mktemp("two")
    yield from checked(folder, tiny_models / "qwen3moe", "-tp", "2", bind=ONE_CORE_EACH)


@pytest.fixture(scope="module")
def one_rank(two_ranks: Checked, tmp_path_factory: pytest.TempPathFactory, tiny_models: Path) -> Iterator[Checked]:
    """The same without ``-tp 2``; started when the other one was asked everything."""
    two_ranks.stop()
    two_ranks.server.stop()
    yield from checked(tmp_path_factory.mktemp("one"), tiny_models / "qwen3moe", bind="0")


def test_rules_that_hold_are_0_and_everything_is_given_back(two_ranks: Checked) -> None:
    before = two_ranks.hooks()
    done = two_ranks.judged("experts", "second rank", "agree")
    assert done.status == 0, done.out + done.err
    assert [done.line(n).split()[0] for n in (1, 2, 3)] == ["ok"] * 3
    assert "CPUUnquantizedExperts" in done.line(1)
    assert two_ranks.hooks() == before
    assert len(before) == 4  # API server, engine, two workers
    assert {level for _, level in before.values()} == {Level.LEDGER}
    assert list((two_ranks.folder / "tmp").glob("m3probe-live-*")) == []


def test_a_path_that_a_flag_turned_off_is_1_and_the_flag_is_named(two_ranks: Checked) -> None:
    done = two_ranks.judged("experts", "graphs")
    assert done.status == 1, done.out + done.err
    assert done.line(1).startswith("ok")
    assert done.line(2).startswith("FAILED")
    assert "enforce_eager is on, as the server resolved it" in done.line(2)
    assert "observed off" in done.line(2)
    (kept,) = (two_ranks.folder / "tmp").glob("m3probe-live-*")
    assert f"the recording is kept in {kept}" in done.err


def test_a_kernel_count_without_kernels_is_4_and_says_what_would_tell(two_ranks: Checked) -> None:
    done = two_ranks.judged("experts", "kernels")
    assert done.status == 4, done.out + done.err
    assert done.line(2).startswith("inconclusive")
    assert "kernels" in done.line(2)
    assert "--profile-steps" in done.out


def test_the_log_of_the_same_server_is_its_configuration_and_no_execution(two_ranks: Checked) -> None:
    rules = two_ranks.folder / "rules.toml"
    rules.write_text(f"[[rule]]\n{RULES['experts']}\n".replace('phase = "decode"\n', ""))
    command = [sys.executable, "-P", "-m", "m3probe", "assert", str(rules), str(two_ranks.server.log)]
    done = subprocess.run(command, cwd=ROOT.parent, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 4, done.stdout + done.stderr
    assert "a log says what was chosen, not what ran" in done.stdout


def test_rules_of_two_ranks_on_one_are_4_and_say_which_is_missing(one_rank: Checked) -> None:
    """``-tp 2`` was lost: what the second rank did is nobody's to say, and nothing is left to compare."""
    done = one_rank.judged("experts", "second rank", "agree")
    assert done.status == 4, done.out + done.err
    assert [done.line(n).split()[0] for n in (1, 2, 3)] == ["ok", "inconclusive", "inconclusive"]
    assert "rank 1 is not in the recording" in done.line(2)
    assert "one rank" in done.line(3)
    assert {level for _, level in one_rank.hooks().values()} == {Level.LEDGER}
