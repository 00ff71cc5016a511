"""A CI gate in pytest: the build is red when a fast path was lost, with the evidence kept beside it.

    pip install 'm3probe[plots]'
    pytest --m3probe-recording=traces/ ci_gate.py

``m3probe-evidence/`` is written when a test fails: ``gate.md``, a table of every rule to paste into an issue,
``report.json``, and ``decode.png`` where matplotlib is installed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import m3probe
from m3probe.pytest_plugin import assert_executed, assert_rules

RULES = Path("ci/fast-paths.toml")
EVIDENCE = Path("m3probe-evidence")


def test_decode_replays_one_graph_a_step(m3probe_recording: m3probe.Opened) -> None:
    """Each decode step is one replay of a FULL graph."""
    with evidence(m3probe_recording):
        assert_executed(m3probe_recording, "graph_replay", phase="decode", per_step=1, variant="FULL")


def test_rules_of_the_team(m3probe_recording: m3probe.Opened) -> None:
    """Every rule of the file, in one verdict."""
    with evidence(m3probe_recording):
        assert_rules(m3probe_recording, RULES)


@contextmanager
def evidence(opened: m3probe.Opened) -> Iterator[None]:
    """Keep what the failure rests on."""
    try:
        yield
    except AssertionError:
        keep(opened, EVIDENCE)
        raise


def keep(opened: m3probe.Opened, folder: Path) -> None:
    """Write the table, the report and the picture."""
    folder.mkdir(exist_ok=True)
    try:
        table = m3probe.to_markdown(m3probe.judge(opened.recording, RULES, opened.report))
    except m3probe.M3ProbeError as error:
        table = f"{error}\n\n"  # the rules file itself: there is no table to show
    drawn = picture(opened.report, folder / "decode.png")
    shown = "![kernel time of a decode step](decode.png)\n" if drawn else "no picture: matplotlib is not installed\n"
    (folder / "gate.md").write_text(table + shown, encoding="utf-8")
    (folder / "report.json").write_text(m3probe.to_json(opened.report), encoding="utf-8")


def picture(report: m3probe.Report, path: Path) -> bool:
    """Kernel time of the mean decode step by family, in ms; False where matplotlib is not installed."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return False
    rows = report.df("repeats")
    decode = rows[(rows["phase"] == "decode") & rows["ns_per_step"].notna()].set_index("family")["ns_per_step"]
    drawn = Figure(figsize=(9, 5), layout="constrained")
    axes = drawn.subplots()
    times = (decode / 1e6).astype(float).sort_values()
    axes.barh(times.index.tolist(), times.tolist())
    axes.set(xlabel="ms", title="Kernel time of the mean decode step")
    drawn.savefig(path)
    return True
