"""A fuzzer runs for a time: batches of examples with a seed each, and the smallest failing one is kept as files."""

from __future__ import annotations

import shutil
import tempfile
import time
import traceback
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

from fuzz.harness import Format, Sample
from hypothesis import HealthCheck, Phase, given, seed, settings
from tree import ROOT

KEPT = ROOT / "build" / "fuzz"
WHY = "WHY.txt"
BATCH = 100
"""Examples of one seed: few enough that a run ends near its time."""
SHRINKING_S = 30.0
"""Longest search for a smaller failing example once one was found."""
NOT_FORMATS = frozenset({"harness", "damage", "running"})


class Enough(BaseException):
    """Time is over; no failure, so that hypothesis lets it through."""


@dataclass(slots=True)
class Outcome:
    """What one run did."""

    examples: int = 0
    seconds: float = 0.0
    failure: str = ""
    kept: Path | None = None
    seed: int = 0
    smallest: int = field(default=1 << 62)


def formats() -> list[str]:
    """Names of every format, one file of this folder each."""
    found = (path.stem for path in Path(__file__).parent.glob("*.py"))
    return sorted(name for name in found if name not in NOT_FORMATS and not name.startswith("_"))


def format_of(name: str) -> Format:
    """One format's fuzzer."""
    found: Format = import_module(f"fuzz.{name}").FORMAT
    return found


def again(folder: Path) -> None:
    """Look once more at what was kept, or at a case; the format is the first word of the folder's name.

    Raises:
        AssertionError: it fails still; or what else it failed by.
    """
    found = format_of(folder.name.rpartition("-")[0])
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != WHY]
    files = {str(path.relative_to(folder)): path.read_bytes() for path in paths}
    with tempfile.TemporaryDirectory(prefix="m3probe-fuzz-") as root:
        for whole in (True, False):
            found.look(Sample(files, folder=whole), Path(root) / str(whole))


def run(name: str, seconds: float, first_seed: int, most: int | None = None) -> Outcome:
    """Examples until ``seconds`` are over (or ``most`` are done), or until one fails.

    Args:
        name: of the format.
        seconds: wall time.
        first_seed: of the first batch; the next has one more. The same seed draws the same examples.
        most: examples at most; None: as many as there is time for.
    """
    found, outcome, began = format_of(name), Outcome(), time.monotonic()
    batch = 0
    while not outcome.failure and time.monotonic() - began < seconds and (most is None or outcome.examples < most):
        outcome.seed = first_seed + batch
        _batch(found, outcome, began + seconds, min(BATCH, most or BATCH))
        batch += 1
    outcome.seconds = time.monotonic() - began
    return outcome


def _batch(found: Format, outcome: Outcome, until: float, size: int) -> None:
    failed_at = 0.0

    @seed(outcome.seed)
    @settings(
        max_examples=size,
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )
    @given(found.samples)
    def example(sample: Sample) -> None:
        nonlocal failed_at
        if time.monotonic() > (failed_at + SHRINKING_S if failed_at else until):
            raise Enough
        outcome.examples += 1
        folder = Path(tempfile.mkdtemp(prefix=f"m3probe-fuzz-{found.name}-"))
        try:
            found.look(sample, folder / "in")
        except Exception as error:
            failed_at = failed_at or time.monotonic()
            _keep(found, sample, error, outcome)
            raise
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    try:
        example()
    except Enough:
        return
    except Exception as error:  # noqa: BLE001 - what failed was kept; anything else is a fault of the fuzzer
        outcome.failure = outcome.failure or "".join(traceback.format_exception(error))


def _keep(found: Format, sample: Sample, error: Exception, outcome: Outcome) -> None:
    """The smallest failing sample so far, as files that can be read again."""
    if sample.size() >= outcome.smallest:
        return
    outcome.smallest, outcome.failure = sample.size(), "".join(traceback.format_exception(error))
    outcome.kept = KEPT / f"{found.name}-{outcome.seed}"
    shutil.rmtree(outcome.kept, ignore_errors=True)
    for name, content in sample.files.items():
        path = outcome.kept / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    (outcome.kept / WHY).write_text(outcome.failure, "utf-8", "backslashreplace")
