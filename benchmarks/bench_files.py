"""What a page, an export and a file of any profiler cost: CPU seconds, peak memory of the process and bytes written.

    python benchmarks/bench_files.py --work DIR PATH...

Needs m3probe in the interpreter's environment, with the extra `export`. For a 101 MB trace: `make_large_trace.py`; for a 1 GB
database: `make_rocpd.py`. A way that a PATH has nothing for says so by its exit status.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

WAYS = ("analyze", "analyze --html", *(f"export --to {to}" for to in ("perfetto", "chrome", "parquet", "arrow", "csv")))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("paths", type=Path, nargs="+")
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    print("| input | way | CPU s | peak RSS MiB | MB written |\n| --- | --- | ---: | ---: | ---: |")
    for path in given.paths:
        for way in WAYS:
            out = given.work / ("page.html" if "html" in way else "out")
            print(f"| {path.name} | {way} | {measured(way, path, out)} |", flush=True)


def measured(way: str, path: Path, out: Path) -> str:
    """The row's figures, of one run of one process."""
    if out.is_dir():
        shutil.rmtree(out)
    out.unlink(missing_ok=True)
    verb, *words = way.split()
    target = [] if way == "analyze" else [str(out)] if verb == "analyze" else ["--out", str(out)]
    command = [sys.executable, "-P", "-m", "m3probe", verb, str(path), "--no-progress", *words, *target]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        return f"exit {process.returncode} | | "
    files = [out] if out.is_file() else [one for one in out.rglob("*") if one.is_file()] if out.is_dir() else []
    size = f"{sum(one.stat().st_size for one in files) / 1e6:.1f}" if files else ""
    return f"{used.ru_utime + used.ru_stime:.2f} | {used.ru_maxrss / 1024:.0f} | {size}"


if __name__ == "__main__":
    main()
