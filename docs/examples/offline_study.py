"""Which steps of a recording are slow, and why: time on the device by family, and the top shapes beside their floor.

    pip install 'm3probe[plots]'
    python offline_study.py PATH [FOLDER] [PHASE]

prints two tables, and writes ``study.html`` (plotly: hover, zoom; opens offline) with the same as ``study.png`` and
``study.svg`` (matplotlib) to paste into an issue. Without matplotlib it says so and writes the page alone.
"""

from __future__ import annotations

import html
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

import m3probe

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

SLOW = 1.05
"""A step is slow above so many medians of its phase."""
TOP = 10
"""Shapes shown."""
SMALL = 0.01
"""Families below this share of the mean step are drawn as one."""


def steps_of(recording: m3probe.Recording, report: m3probe.Report, phase: str = "decode") -> pd.DataFrame:
    """One row a step, in ms: ``step``, ``idle``, and the kernel time of each family; the index is the step's row."""
    told = report.df("steps")
    kernels = recording.kernels.df()
    timed = kernels[kernels["timed"] & kernels["step"].notna()]
    families = timed.groupby(["step", "family"], observed=True)["dur_ns"].sum().unstack(fill_value=0)
    wanted = told[(told["phase"] == phase) & told["step_time_ns"].notna()]
    times = wanted[["step_time_ns", "idle_ns"]].rename(columns={"step_time_ns": "step", "idle_ns": "idle"})
    # the columns of a categorical are an index of categories, to which no other name could be added
    families.columns = families.columns.astype(str)
    return times.join(families).astype(float) / 1e6


def slow_steps(steps: pd.DataFrame) -> pd.DataFrame:
    """Steps above ``SLOW`` medians, and the part of each that lies farthest above its own median."""
    above = steps - steps.median()
    slow = steps["step"] > SLOW * steps["step"].median()
    parts = above.drop(columns="step")[slow]
    return pd.DataFrame(
        {
            "step_ms": steps["step"][slow],
            "above_median_ms": above["step"][slow],
            "why": parts.idxmax(axis=1) if len(parts) else pd.Series(dtype=object),
            "of_that_ms": parts.max(axis=1),
        }
    ).sort_values("above_median_ms", ascending=False)


def shapes_of(report: m3probe.Report) -> pd.DataFrame:
    """The shapes that cost most in all, in us for one execution; the floor is NaN where nothing tells it."""
    rows = report.df("roofline")
    rows = rows[~rows["part"] & rows["observed_ns"].notna()]
    total = (rows["observed_ns"] * rows["count"]).rename("total_ms") / 1e6
    shown = pd.DataFrame(
        {
            "shape": rows["phase"] + ": " + rows["shape"],
            "total_ms": total.astype(float),
            "observed_us": (rows["observed_ns"] / 1e3).astype(float),
            "floor_us": (rows["floor_ns"] / 1e3).astype(float),
        }
    )
    return shown.sort_values("total_ms", ascending=False).head(TOP).set_index("shape")


def parts_of(steps: pd.DataFrame) -> pd.DataFrame:
    """What is stacked: idle time, the families from the largest on, and those that are too small to see as one."""
    families = steps.drop(columns=["step", "idle"])
    mean = families.mean().sort_values(ascending=False)
    seen = mean.index[mean >= SMALL * steps["step"].mean()]
    return pd.concat(
        [steps[["idle"]], families[seen], families.drop(columns=seen).sum(axis=1).rename("small families")], axis=1
    )


def figures(steps: pd.DataFrame, shapes: pd.DataFrame) -> list[Figure]:
    """Both tables for plotly; names out of a recording are foreign text, and plotly reads tags in a label."""
    words = {"value": "ms", "variable": "", "index": "step"}
    parts = parts_of(steps)
    one = parts.plot(backend="plotly", kind="bar", labels=words, color_discrete_map={"idle": "lightgrey"})
    one.add_scatter(x=steps.index, y=steps["step"], name="step time", mode="markers", marker={"color": "black"})
    one.update_layout(title="Idle time, and kernel time by family (above the marker: streams overlap)")
    named = shapes[["observed_us", "floor_us"]].rename(index=html.escape)
    two = named.plot(backend="plotly", kind="bar", barmode="group", labels={"value": "us", "variable": ""})
    two.update_layout(title="Shapes that cost most: one execution beside its floor")
    for drawn in (one, two):
        drawn.update_layout(template="plotly_white", height=480)
    return [one, two]


def pictures(steps: pd.DataFrame, shapes: pd.DataFrame, folder: Path) -> list[Path]:
    """The same as PNG and SVG; [] where matplotlib is not installed."""
    try:
        from matplotlib.figure import Figure as Picture
    except ImportError:
        return []
    drawn = Picture(figsize=(11, 9), layout="constrained")
    above, below = drawn.subplots(2, 1)
    parts = parts_of(steps)
    colors = ["lightgrey", *(f"C{i}" for i in range(parts.shape[1] - 1))]
    parts.plot.bar(stacked=True, ax=above, color=colors, rot=0)
    above.plot(range(len(steps)), steps["step"], "kD", label="step time")
    above.set(
        xlabel="step", ylabel="ms", title="Idle time, and kernel time by family (above the marker: streams overlap)"
    )
    above.legend(loc="center left", bbox_to_anchor=(1, 0.5), fontsize="small")
    # a dollar begins a formula in a label of matplotlib
    named = shapes[["observed_us", "floor_us"]].rename(index=lambda name: name.replace("$", r"\$"))
    named[::-1].plot.barh(ax=below, color=["tab:blue", "tab:orange"])
    below.set(xlabel="us for one execution", ylabel="", title="Shapes that cost most, beside their floor")
    found = [folder / "study.png", folder / "study.svg"]
    for path in found:
        drawn.savefig(path)
    return found


def study(path: Path, folder: Path, phase: str = "decode") -> dict[str, Any]:
    """Read, draw and write; the tables by name, and ``written``: the files."""
    recording = m3probe.open_recording(path)
    report = m3probe.analyze(recording)
    steps, shapes = steps_of(recording, report, phase), shapes_of(report)
    if steps.empty or shapes.empty:
        missing = "step" if steps.empty else "shape"
        raise m3probe.UsageError(
            f"no {missing} whose time is known ({phase})",
            where=str(path),
            next_move="Give a trace with kernels and steps: its phases are prefill, decode and mixed",
        )
    folder.mkdir(parents=True, exist_ok=True)
    page = folder / "study.html"
    drawn = figures(steps, shapes)
    body = "".join(one.to_html(full_html=False, include_plotlyjs=one is drawn[0]) for one in drawn)
    page.write_text(f"<!doctype html><meta charset=utf-8><title>study</title>{body}", encoding="utf-8")
    written = [page, *pictures(steps, shapes, folder)]
    return {"report": report, "steps": steps, "slow": slow_steps(steps), "shapes": shapes, "written": written}


def main(words: list[str]) -> int:
    """What the module's docstring says; the exit status is m3probe's own."""
    try:
        found = study(Path(words[0]), Path(words[1] if len(words) > 1 else "."), *words[2:3])
    except m3probe.M3ProbeError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    print(found["report"], f"median step {found['steps']['step'].median():.3f} ms\n", sep="\n")
    print(found["slow"].round(3).to_string(), "\n")
    print(found["shapes"].round(1).to_string(), "\n")
    if len(found["written"]) == 1:
        print("no PNG or SVG: matplotlib is not installed (pip install 'm3probe[plots]')", file=sys.stderr)
    print("wrote", *found["written"])
    return 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1:]))
