"""One example of a fuzzer through everything: read, judged, printed in each form, and what must hold of all of it.

A sample is files built from records. A sound one says the facts that its records make, worked out here without m3probe; of
a damaged one nothing is known, but that it is refused in one sentence or read, within bounded time and memory.
"""

from __future__ import annotations

import json
import re
import resource
import signal
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from zlib import crc32

from fuzz import _exports as exports
from hypothesis.strategies import SearchStrategy
from jsonschema.exceptions import best_match
from jsonschema.validators import validator_for
from tree import ROOT

from m3probe import pipeline, registry
from m3probe._pages import report_page
from m3probe.errors import UnreadableInput, UsageError
from m3probe.model.recording import Recording
from m3probe.model.report import Report
from m3probe.present.html import page as html_page
from m3probe.present.inspect_text import inspect_text
from m3probe.present.json import inspect_json, report_json
from m3probe.present.junit import junit_unread, junit_xml
from m3probe.present.text import report_text
from m3probe.present.verdict_text import judgement_json, judgement_text
from m3probe.rules import judge, load_rules

MOST_SECONDS = 20.0
"""Of processor time for one example of a few kilobytes; the slowest seen takes 0.3 s."""
MOST_GROWTH = 512 * 2**20
"""Bytes that the process may grow by over one example."""
RAW = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff\U000e0000-\U000e007f]"
)
"""What would act on a terminal, or show another text than is there. A newline is the report's own."""
MARKS = ("<fzz", '" onfzz="', "' onfzz='")
"""The element and the attributes that hostile names ask for; no page may hold one."""
SCRIPT = re.compile(r"<script\b.*?</script>", re.DOTALL)
"""Where a quote ends no attribute: what stands there is JSON, or our own."""
TURNS = 6
"""Of so many samples one is drawn as a page, and one is exported each way: these take as long as all the rest."""
registry.entry_points = cache(registry.entry_points)
"""Otherwise a third of the time of an example goes into reading the files of installed packages."""
RULES = """[require]
trust = "complete"
[[rule]]
family = "gemm"
max_share = 0.5
[[rule]]
kernel = "*"
max_count = 3
[[rule]]
kernel = "*"
per_step = 1
[[rule]]
path = "graph_replay"
phase = "decode"
verdict = "executed"
"""


@dataclass(frozen=True, slots=True)
class Sample:
    """Files of one example.

    Args:
        files: name below the example's folder -> content.
        says: facts that ``inspect`` must print of it, from the records; empty where the files are damaged.
        folder: the folder is given instead of its files.
        also: what else must hold of the recording.
    """

    files: Mapping[str, bytes]
    says: Mapping[str, Any] = field(default_factory=dict)
    folder: bool = False
    also: Callable[[Recording], None] | None = None

    def size(self) -> int:
        """Bytes of all files."""
        return sum(map(len, self.files.values()))


@dataclass(frozen=True, slots=True)
class Format:
    """One format's fuzzer: what it draws, and what is done with a sample."""

    name: str
    samples: SearchStrategy[Sample]
    look: Callable[[Sample, Path], None]


class TooSlow(Exception):
    """An example that takes more processor time than any should."""


def examine(sample: Sample, root: Path) -> None:
    """Write the files below ``root``, read them and hold everything that is said of them against the rules."""
    paths = written(sample, root)
    with bounded():
        try:
            rec = pipeline.read([root] if sample.folder else paths)
        except UnreadableInput as error:
            assert not sample.says, f"a sound file is refused: {error}"
            refused(error)
            return
        told = pipeline.report(rec)
        judged_whole(told)
        terminal(rec, told)
        machine(rec, told)
        turn = crc32(b"".join(sample.files.values())) % TURNS
        if turn == 0:
            page(paths, rec, told)
        elif turn < len(exports.WAYS) + 1:
            exports.exported(exports.WAYS[turn - 1], paths, rec, told, root)
        rules(rec, told)
        if sample.says:
            facts = pipeline.inspect(rec).facts
            wrong = {key: (facts.get(key), due) for key, due in sample.says.items() if facts.get(key) != due}
            assert not wrong, f"said and due: {wrong}"
        if sample.also:
            sample.also(rec)


def written(sample: Sample, root: Path) -> list[Path]:
    """The sample's files on disk."""
    for name, content in sample.files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return [root / name for name in sample.files]


@contextmanager
def bounded() -> Iterator[None]:
    """Ends what takes too long, and fails for what takes too much."""

    def stop(_signal: int, _frame: object) -> None:
        raise TooSlow(f"more than {MOST_SECONDS} s of processor time")

    before, old = memory(), signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, old)
    assert memory() - before < MOST_GROWTH, f"{(memory() - before) >> 20} MiB more than before"


def memory() -> int:
    """Bytes that this process ever held at once."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def refused(error: UnreadableInput | UsageError) -> None:
    """A refusal says what and where, and stays well-formed where it is printed as it is."""
    assert error.what.strip()
    assert error.where or isinstance(error, UsageError), error.what
    assert len(error.sentence()) < 8_000, "a file's content is told at length"
    inspect_json("unknown", "error", {}, [error.sentence()]).encode()
    ET.fromstring(junit_unread("rules.toml", error.sentence()))


def judged_whole(told: Report) -> None:
    """No analyzer fell over it."""
    failed = [finding for finding in told.answer.findings if finding.id.endswith(".failed")]
    assert not failed, f"{failed[0].claim} at {failed[0].where}"


def terminal(rec: Recording, told: Report) -> None:
    """Nothing of the file acts on a terminal."""
    found = pipeline.inspect(rec)
    warnings = [note.text for note in found.warnings]
    text = report_text(told, 100, color=False) + report_text(told, 60, color=False, ascii_only=True)
    text += inspect_text(found.kind, found.outcome, found.facts, warnings, width=100)
    clean(text, "text")


def clean(text: str, what: str) -> None:
    """No character of it acts on whatever shows it."""
    raw = RAW.search(text)
    assert not raw, f"{raw[0]!r} raw in the {what}: {text[max(0, raw.start() - 60) : raw.end() + 20]!r}"


def machine(rec: Recording, told: Report) -> None:
    """JSON is JSON, as its schema has it."""
    document = json.loads(report_json(told).encode(), parse_constant=refuse_constant)
    wrong = best_match(report_schema().iter_errors(document))
    assert wrong is None, f"{list(wrong.absolute_path)}: {wrong.message[:300]}"
    found = pipeline.inspect(rec)
    warnings = [note.text for note in found.warnings]
    json.loads(inspect_json(found.kind, found.outcome, found.facts, warnings).encode(), parse_constant=refuse_constant)


def refuse_constant(word: str) -> None:
    """NaN and Infinity are no JSON."""
    raise AssertionError(f"{word} in JSON")


@cache
def report_schema() -> Any:
    """The validator of ``analyze --json``."""
    schema = json.loads((ROOT / "docs" / "report.schema.json").read_text())
    return validator_for(schema)(schema)


def page(paths: list[Path], rec: Recording, told: Report) -> None:
    """A page holds elements and attributes of its own alone, and nothing raw."""
    kept, html_page.plotly = html_page.plotly, str  # 4.7 MB of somebody else's, the same each time
    try:
        text = report_page(paths, rec, told)
    finally:
        html_page.plotly = kept
    text.encode()
    assert MARKS[0] not in text, "an element of the file's in the page"
    marked = SCRIPT.sub("", text)
    assert not any(mark in marked for mark in MARKS), "an attribute of the file's in the page"
    clean(text.replace("\t", " "), "page")


@cache
def rules_file() -> Path:
    """Rules that ask about what a file may hold, written once a process."""
    import tempfile

    path = Path(tempfile.mkdtemp(prefix="m3probe-fuzz-")) / "rules.toml"
    path.write_text(RULES)
    return path


def rules(rec: Recording, told: Report) -> None:
    """The rules get a verdict each, told in every form."""
    judgement = judge(load_rules(rules_file()), rec, told.answer)
    assert judgement.exit_code in (0, 1, 4)
    ET.fromstring(junit_xml(judgement))
    json.loads(judgement_json(judgement).encode(), parse_constant=refuse_constant)
    clean(judgement_text(judgement), "verdicts")
