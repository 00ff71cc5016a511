"""pytest plugin: fixtures that open recordings, assertions on them, and rules as test items (docs/pytest.md).

It is loaded in every pytest run where m3probe is installed: nothing of m3probe is imported before a test or an option
asks for it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from m3probe.asserting import Opened
    from m3probe.model.recording import Recording
    from m3probe.rules import RulesFile

RECORDING, RULES = "--m3probe-recording", "--m3probe-rules"
LOADED: pytest.StashKey[RulesFile] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options, in a group of their own."""
    group = parser.getgroup("m3probe", "recordings of a vLLM server")
    group.addoption(
        RECORDING,
        action="append",
        default=[],
        metavar="PATH",
        help="a trace, a profile folder, a recording, a log; repeated, they are read as one",
    )
    group.addoption(RULES, metavar="FILE", help="a rules file: each of its rules is a test item on the recording")


def pytest_sessionstart(session: pytest.Session) -> None:
    """The rules are read before anything is collected: pytest-xdist answers a worker's usage error with a traceback."""
    rules = session.config.getoption(RULES)
    if rules is not None:
        from m3probe._pytest_rules import loaded_rules

        session.config.stash[LOADED] = loaded_rules(rules, session.config.getoption(RECORDING), RECORDING)


# First: what deselects by -k, or runs what failed last, must see these items too.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    """The rules of the command line as items, before those of the files."""
    if LOADED in config.stash:
        from m3probe._pytest_rules import rule_items

        rules, recording = config.getoption(RULES), config.getoption(RECORDING)
        items[:0] = rule_items(session, config.stash[LOADED], Path(rules), recording)


@pytest.fixture(scope="session")
def open_recording() -> Callable[..., Opened]:
    """``open_recording(*paths, model_config=..., tp=..., ep=..., recipe=...)``: each call reads."""
    from m3probe.asserting import opened

    return partial(_or_fail, opened)


@pytest.fixture(scope="session")
def m3probe_recording(pytestconfig: pytest.Config) -> Opened:
    """What ``--m3probe-recording`` names, read once a session; without it the test fails, as evidence is missing."""
    from m3probe.asserting import opened

    paths = pytestconfig.getoption(RECORDING)
    if not paths:
        pytest.fail(f"inconclusive: no recording was given -> give {RECORDING} PATH", pytrace=False)
    found: Opened = _or_fail(opened, *paths)
    return found


def assert_executed(
    recording: Opened | Recording | str | Path,
    path: str,
    *,
    phase: str | None = None,
    per_step: Any = None,
    rank: int | None = None,
    variant: str | None = None,
) -> None:
    """Fail unless a fast path ran.

    Args:
        recording: from a fixture or ``m3probe.open_recording``, or a path to read.
        path: by its file name in ``m3probe/fastpaths/``.
        phase: ``decode``, ``prefill``, ...; left out, the path's own verdict.
        per_step: calls in every step of the phase, counted by the path's own kernels: a number, ``{"min": 1}``, or a
            formula as in a rules file.
        rank: a global rank; left out, every rank.
        variant: the one implementation that must have run.

    Raises:
        AssertionError: it did not run (``FAILED``), or the evidence does not tell (``inconclusive``).
    """
    __tracebackhide__ = True
    from m3probe.asserting import executed

    _raise(_or_fail(executed, recording, path, phase=phase, per_step=per_step, rank=rank, variant=variant))


def assert_rules(recording: Opened | Recording | str | Path, rules: str | Path) -> None:
    """Fail unless every rule of a file (or of a ready one, by its name) holds.

    Raises:
        AssertionError: with every rule that failed or could not be judged.
    """
    __tracebackhide__ = True
    from m3probe.asserting import broken_rules

    _raise(_or_fail(broken_rules, recording, rules))


def _raise(text: str) -> None:
    __tracebackhide__ = True
    if text:
        raise AssertionError(text)


def _or_fail(do: Callable[..., Any], *args: Any, **named: Any) -> Any:
    """An input that cannot be read, or a word that does not exist, in its own sentence instead of a traceback."""
    __tracebackhide__ = True
    from m3probe.errors import M3ProbeError
    from m3probe.present.escape import safe

    said = ""
    try:
        return do(*args, **named)
    except M3ProbeError as error:
        said = safe(error.sentence())
    raise AssertionError(said)
