"""Fuzz the readers: ``python benchmarks/fuzz.py [FORMAT...] [--seconds N] [--seed N] [--jobs N]``;
``--again FOLDER`` looks once more at what was kept.

Builds files from records, damages them, and reads, judges and prints each (tests/fuzz). The smallest failing example is
kept below build/fuzz, and the seed that found it is printed: the same format and seed find it again.
"""

import argparse
import os
import resource
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent / "tests"
# instead of this folder, whose fuzz.py would hide tests/fuzz
sys.path[:] = [str(TESTS), *(path for path in sys.path if Path(path).resolve() != Path(__file__).resolve().parent)]
MOST_MEMORY = 8 << 30
"""Bytes of address space of a fuzzer: what asks for more gets a MemoryError, which is a failure."""


def main() -> int:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("formats", nargs="*", metavar="FORMAT", help="left out: all of them")
    words.add_argument("--seconds", type=float, default=20.0, help="of each format (default 20)")
    words.add_argument("--seed", type=int, default=None, help="of the first 100 examples (default: the time)")
    words.add_argument("--jobs", type=int, default=1, help="formats at a time (default 1)")
    words.add_argument("--again", type=Path, metavar="FOLDER", help="look once more at what was kept below build/fuzz")
    args = words.parse_args()
    if args.again:
        from fuzz.running import again

        again(args.again)
        return 0
    seed = int(time.time()) if args.seed is None else args.seed
    if len(args.formats) == 1:
        return one(args.formats[0], args.seconds, seed)
    from fuzz.running import formats

    command = [sys.executable, __file__, "--seconds", str(args.seconds), "--seed", str(seed)]
    with ThreadPoolExecutor(args.jobs) as pool:
        ended = [pool.submit(subprocess.run, [*command, name], check=False) for name in args.formats or formats()]
    return max(one.result().returncode for one in ended)


def one(name: str, seconds: float, seed: int) -> int:
    """One format in this process; 1 when an example failed."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    from fuzz.running import run

    outcome = run(name, seconds, seed)
    print(f"{name}: {outcome.examples:,} examples in {outcome.seconds:.0f} s, seed {seed}", flush=True)
    if not outcome.failure:
        return 0
    print(f"{outcome.failure}\n{name}: FAILED at seed {outcome.seed}; the files are in {outcome.kept}", flush=True)
    return 1


if __name__ == "__main__":
    sys.exit(main())
