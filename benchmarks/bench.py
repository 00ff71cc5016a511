"""Measure whole processes: m3probe beside orjson and HolisticTraceAnalysis, on the same files in the same run.

    M3VENV/bin/python benchmarks/bench.py --work DIR --peers PEERSVENV/bin/python [--into benchmarks/RESULTS.md]

Run it with the interpreter of the environment that m3probe is installed in. CPU seconds (user + system) and the peak
resident set come from wait4 of each child; a figure is the median of the runs with the smallest and the largest beside
it. The tools take turns, so that other load on the machine meets all of them. Narration goes to stderr.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import platform
import re
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
TRACES = Path(os.environ.get("M3PROBE_SHARED") or HERE.parents[1] / "shared") / "traces"
TRUTH = HERE.parent / "tests" / "data" / "families.tsv"
INFERENCE = "tracelens/inference"
BASE = TRACES / INFERENCE / "vllm_prefilldecode_piecewise/graph_execution.json.gz"
SMALL = TRACES / INFERENCE / "vllm_decode_full/graph_execution.json.gz"
CLASSIFIED = (
    ("vLLM, full graph, MI300X", SMALL),
    ("vLLM, piecewise graphs, MI300X", BASE),
    ("xDiT Stable Diffusion 3.5, MI300X", TRACES / INFERENCE / "xdit_sd_3.5/profile_trace_rank_0.json.gz"),
    ("vLLM, eager, B200", TRACES / "tracelens/b200/eager_trace.json.gz"),
    ("vLLM, MiniMax M3, graphs, H200", TRACES / "h200-m3/h200-m3-tp4rank-graph.pt.trace.json.gz"),
    ("vLLM, MiniMax M3, eager, H200", TRACES / "h200-m3/h200-m3-tp4rank-eager.pt.trace.json.gz"),
)
LIMITS = {0: (0.7, None), 100: (1.6, 200.0), 1000: (10.0, 600.0)}
"""Size in MB (0: the small one) -> CPU seconds and MiB that m3probe may use: set before it was written."""
QUESTIONS = ("trust", "summary", "shapes", "repeats", "bytes", "paths", "queues")
TOOLS = ("m3probe", "orjson", "orjson, gc off", "HTA")
NOT_RUN = "not run"
Load = tuple[float, float, float]
MARKS = ("<!-- measured by bench.py -->", "<!-- end of measured -->")

# Children. -I: no script folder and no working folder on sys.path, where ./m3probe would hide the installed package.
ORJSON = """
import gc, gzip, sys, orjson
if sys.argv[2] == "gc off":
    gc.disable()
raw = open(sys.argv[1], "rb").read()
orjson.loads(gzip.decompress(raw) if raw[:2] == b"\\x1f\\x8b" else raw)
"""
HTA = """
import sys
from hta.trace_analysis import TraceAnalysis
_, kernels = TraceAnalysis(trace_dir=sys.argv[1]).get_gpu_kernel_breakdown(visualize=False)
print(int(1000 * kernels[kernels["kernel_type"] != "MEMORY"]["sum (us)"].sum()))
"""
# The truth that answers are held against: the standard library, one event at a time, whole nanoseconds.
PLAIN = """
import collections, decimal, gzip, json, sys
raw = open(sys.argv[1], "rb").read()
text = gzip.decompress(raw) if raw[:2] == b"\\x1f\\x8b" else raw
count, spent = 0, collections.Counter()
for event in json.loads(text, parse_float=decimal.Decimal)["traceEvents"]:
    if event.get("cat") == "kernel":
        count += 1
        spent[event["name"]] += int(event["dur"] * 1000)
print(json.dumps({"count": count, "by_name_ns": spent}))
"""
FAMILIES = """
import collections, json, pathlib, sys
from m3probe import pipeline
from m3probe.schema.verdicts import FAMILIES
rec = pipeline.read([pathlib.Path(sys.argv[1])])
spent = collections.Counter()
columns = (rec.names("kernels"), rec.kernels["family"].tolist(), rec.kernels["dur_ns"].tolist())
for name, family, dur_ns in zip(*columns, strict=True):
    spent[name, str(FAMILIES[family])] += dur_ns
print(json.dumps([[*key, ns] for key, ns in spent.items()]))
"""
VERSIONS = """
import importlib.metadata, json, platform, sys
found = {"Python": platform.python_version()}
for name in sys.argv[1:]:
    try:
        found[name] = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        pass
print(json.dumps(found))
"""


@dataclass
class Runs:
    """What one tool used on one input, a figure per run; ``failed`` says why none is shown, and one failure stays."""

    cpu_s: list[float] = field(default_factory=list)
    rss_mib: list[float] = field(default_factory=list)
    failed: str = NOT_RUN
    said: str = ""


@dataclass
class Row:
    """One input, the most m3probe may use on it, what is in it and what each tool used."""

    title: str
    path: Path
    limits: tuple[float | None, float | None]
    kernels: int
    kernel_ns: int
    tools: dict[str, Runs] = field(default_factory=lambda: {tool: Runs() for tool in TOOLS})
    m3probe_ns: int = 0
    unanswered: tuple[str, ...] = ()


# --- children -----------------------------------------------------------------------------------------------------


def measure(argv: Sequence[str], work: Path, runs: Runs) -> None:
    """Run a process to its end and add its figures.

    A child's peak counts from before its exec, when it still held this script's memory: all that is large happens in
    children, and this process stays smaller than any of them.
    """
    with (work / "stdout").open("w+") as out, (work / "stderr").open("w+") as err:
        child = subprocess.Popen(argv, stdout=out, stderr=err, stdin=subprocess.DEVNULL)
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        runs.said = out.read(100).strip()
        last = (err.read().strip().splitlines() or [""])[-1]
    if child.returncode != 0:
        runs.failed = f"failed (exit {child.returncode}: {last[:80]})"
    elif runs.failed == NOT_RUN:
        runs.failed = ""
    runs.cpu_s.append(used.ru_utime + used.ru_stime)
    runs.rss_mib.append(used.ru_maxrss / 1024)


def answer(*argv: str) -> Any:
    """What a child printed as JSON; its failure is the end of the benchmark."""
    child = subprocess.run(argv, capture_output=True, check=False, text=True, stdin=subprocess.DEVNULL)
    if child.returncode != 0:
        sys.exit(f"bench.py: {Path(argv[0]).name} ended with {child.returncode} on {argv[-1]}: {child.stderr.strip()}")
    return json.loads(child.stdout)


def commands(path: Path, work: Path, peers: str | None) -> Iterator[tuple[str, list[str]]]:
    """Tool -> its command line for one input."""
    yield "m3probe", [m3probe(), "analyze", str(path)]
    if peers is None:
        return
    yield "orjson", [peers, "-I", "-c", ORJSON, str(path), "gc on"]
    yield "orjson, gc off", [peers, "-I", "-c", ORJSON, str(path), "gc off"]
    folder = work / f"hta-{path.name}"  # HTA reads folders
    folder.mkdir(exist_ok=True)
    link = folder / path.name
    link.unlink(missing_ok=True)
    link.symlink_to(path)
    yield "HTA", [peers, "-I", "-c", HTA, str(folder)]


def m3probe() -> str:
    """The installed command of this interpreter's environment."""
    script = Path(sys.executable).with_name("m3probe")
    if not script.exists():
        sys.exit(f"bench.py: no {script}; run this with the interpreter of the environment m3probe is installed in")
    return str(script)


# --- rows ---------------------------------------------------------------------------------------------------------


def rows(base: Path, sizes_mb: Sequence[int], work: Path) -> Iterator[Row]:
    """The inputs, smallest first; the large ones are made here."""
    whole = answer(sys.executable, "-I", "-c", PLAIN, str(SMALL))
    title = "0.5 MB trace, process start to report"
    yield Row(title, SMALL, LIMITS[0], whole["count"], sum(whole["by_name_ns"].values()))
    once = answer(sys.executable, "-I", "-c", PLAIN, str(base))
    for size_mb in sizes_mb:
        out = work / f"vllm-{size_mb}mb.json"
        made = answer(
            sys.executable, str(HERE / "make_large_trace.py"), str(base), str(out), "--target-mb", f"{size_mb}"
        )
        copies = made["copies"]
        title = f"{made['bytes'] / 1e6:,.0f} MB trace, full report"
        limits = LIMITS.get(size_mb, (None, None))
        yield Row(title, out, limits, copies * once["count"], copies * sum(once["by_name_ns"].values()))


def run(row: Row, work: Path, peers: str | None, count: int) -> None:
    """Fill a row. The first m3probe run is not counted: it checks the answer and warms the file cache."""
    report = answer(m3probe(), "analyze", "--json", str(row.path))
    count_seen, row.m3probe_ns = (report["summary"][key] for key in ("kernel_count", "kernel_time_ns"))
    if (count_seen, row.m3probe_ns) != (row.kernels, row.kernel_ns):
        sys.exit(f"bench.py: {row.title}: {row.kernels} kernels, {row.kernel_ns} ns; m3probe: {report['summary']}")
    failed = [found["id"] for found in report["findings"] if found["id"].endswith(".failed")]
    row.unanswered = (*(name for name in QUESTIONS if report[name] is None), *failed)
    for turn in range(count):
        for tool, argv in commands(row.path, work, peers):
            began = time.monotonic()
            measure(argv, work, row.tools[tool])
            say(f"{row.title}: {tool}, run {turn + 1}, {time.monotonic() - began:.1f} s wall")


def classified() -> Iterator[list[str]]:
    """Per trace: how much kernel time has a family, and how much a right one."""
    lines = [line.split("\t") for line in TRUTH.read_text().splitlines()[1:]]
    first = {name: family for name, family, _, _ in lines}
    fair = {name: {family, *also.split(",")} for name, family, also, _ in lines}
    for title, path in CLASSIFIED:
        plain = answer(sys.executable, "-I", "-c", PLAIN, str(path))
        total = sum(plain["by_name_ns"].values())
        spent = answer(sys.executable, "-I", "-c", FAMILIES, str(path))
        if sum(ns for _, _, ns in spent) != total:
            sys.exit(f"bench.py: kernel time of {title} is {total} ns, m3probe read {sum(ns for _, _, ns in spent)}")

        def share(holds: Callable[[str, str], bool], spent: Any = spent, total: int = total) -> str:
            """Percent of kernel time, rounded down: 99.999 must not read 100."""
            ns = sum(ns for name, family, ns in spent if holds(name, family))
            return f"{ns * 10_000 // total / 100:.2f}"

        say(f"families of {title}")
        yield [
            title,
            f"{plain['count']:,}",
            f"{total / 1e6:,.3f}",
            share(lambda _, family: family != "unknown"),
            share(lambda name, family: family in fair.get(name, ())),
            share(lambda name, family: family == first.get(name)),
            share(lambda _, family: family == "other"),
        ]


# --- Markdown -----------------------------------------------------------------------------------------------------


def table(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """A Markdown table; all but the first column are figures."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *body]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def cell(runs: Runs, values: list[float], digits: int) -> str:
    if runs.failed:
        return runs.failed
    low, mid, high = (f"{v:,.{digits}f}" for v in (min(values), statistics.median(values), max(values)))
    return f"{mid} ({low}-{high})"


def ratio(over: Runs, under: Runs, of: Callable[[Runs], list[float]]) -> str:
    if over.failed or under.failed:
        return "-"
    return f"{statistics.median(of(over)) / statistics.median(of(under)):.2g}"


def figures(done: Sequence[Row]) -> str:
    head = ["whole process", "", "limit", *TOOLS, "m3probe / orjson", "m3probe / orjson, gc off", "HTA / m3probe"]
    body = []
    for row in done:
        ours, gc_on, gc_off, hta = (row.tools[tool] for tool in TOOLS)
        for unit, digits, limit in (("CPU s", 2, row.limits[0]), ("peak RSS MiB", 0, row.limits[1])):
            of: Callable[[Runs], list[float]] = (lambda r: r.cpu_s) if unit == "CPU s" else (lambda r: r.rss_mib)
            cells = [cell(runs, of(runs), digits) for runs in row.tools.values()]
            ratios = [ratio(ours, gc_on, of), ratio(ours, gc_off, of), ratio(hta, ours, of)]
            body.append([row.title, unit, "" if limit is None else f"{limit:g}", *cells, *ratios])
    return table(head, body)


def answers(done: Sequence[Row]) -> str:
    head = ["kernel time, us", "kernels", "plain json, integers", "m3probe", "HTA"]
    body = []
    for row in done:
        hta = row.tools["HTA"]
        theirs = hta.failed or f"{int(hta.said.splitlines()[-1]) / 1000:,.0f}"
        ours = f"{row.m3probe_ns / 1000:,.3f}"
        body.append([row.title, f"{row.kernels:,}", f"{row.kernel_ns / 1000:,.3f}", ours, theirs])
    return table(head, body)


def setting(args: argparse.Namespace, before: Load, done: Sequence[Row]) -> str:
    """Date, machine in words, versions, load, and what a reader must know before the figures."""
    cpu = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    words = re.sub(r"\(R\)|\(TM\)|@.*", "", cpu.group(1)).strip() if cpu else platform.machine()
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    ours = answer(sys.executable, "-I", "-c", VERSIONS, "m3probe", "numpy", "msgspec", "isal", "pycxxfilt", "rich")
    theirs = {}
    if args.peers is not None:
        theirs = answer(args.peers, "-I", "-c", VERSIONS, "HolisticTraceAnalysis", "orjson", "pandas", "numpy")

    unanswered = sorted({name for row in done for name in row.unanswered})
    own_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

    def listed(versions: dict[str, str]) -> str:
        return ", ".join(f"{name} {version}" for name, version in versions.items()) or NOT_RUN

    return "\n".join(
        [
            f"- date: {dt.datetime.now(dt.UTC):%Y-%m-%d}",
            f"- machine: {os.cpu_count()} vCPU {' '.join(words.split())}, {memory_gib:.0f} GiB, {platform.system()}",
            f"- m3probe's environment: {listed(ours)}",
            f"- peers' environment: {listed(theirs)}",
            f"- runs: {args.runs} each; median (smallest-largest)",
            f"- questions that m3probe left unanswered: {', '.join(unanswered) or 'none'}",
            f"- no peak below {own_mib:.0f} MiB could be seen (this script's own, which a child has until its exec)",
            f"- load average (1, 5, 15 min) before {_load(before)}, after {_load(os.getloadavg())}",
        ]
    )


def _load(load: Load) -> str:
    return " ".join(f"{value:.1f}" for value in load)


# --- main ---------------------------------------------------------------------------------------------------------


def main() -> None:
    args = parser().parse_args()
    before = os.getloadavg()
    work = args.work.resolve()  # HTA's folders hold links
    work.mkdir(parents=True, exist_ok=True)
    done = []
    for row in rows(args.base.resolve(), args.sizes, work):
        run(row, work, args.peers, args.runs)
        done.append(row)
    head = ["kernel time in a family", "kernels", "ms", "classified %", "right %", "right, first word %", "`other` %"]
    parts = [figures(done), answers(done), table(head, list(classified()))]
    text = "\n\n".join([setting(args, before, done), *parts])
    print(text)
    if args.into is not None:
        start, end = MARKS
        page = args.into.read_text()
        kept, _, rest = page.partition(start)
        args.into.write_text(f"{kept}{start}\n\n{text}\n\n{end}{rest.partition(end)[2]}")


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description="Measure m3probe beside its peers, whole processes.")
    made.add_argument("--base", type=Path, default=BASE, metavar="TRACE", help="trace the large ones are made of")
    made.add_argument("--work", type=Path, required=True, metavar="DIR", help="for the large traces and outputs")
    made.add_argument("--peers", metavar="PYTHON", help="interpreter that has orjson and HolisticTraceAnalysis")
    made.add_argument("--runs", type=int, default=3, metavar="N", help="runs of each tool (default 3)")
    made.add_argument("--sizes", type=int, nargs="*", default=[100, 1000], metavar="MB", help="of the large traces")
    made.add_argument("--into", type=Path, metavar="FILE", help="also put the result between this page's marks")
    return made


def say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
