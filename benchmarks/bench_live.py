"""What watching a server costs: processor time of one poll and one report, as a share of a core at one poll a second.

    python benchmarks/bench_live.py PAGE... [--polls N]

Each page is served on this host with all its counters growing from poll to poll, and asked for as ``m3probe tui URL`` does it;
time runs by hand, so that N seconds of watching take as long as they cost. The terminal's own drawing is not in it.
"""

from __future__ import annotations

import argparse
import re
import resource
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from m3probe.viewing.live import UrlFeed

GROWS = re.compile(rb"^(\w[\w:]*(?:_total|_count|_sum|_bucket)(?:\{.*\})?) (\S+)$", re.MULTILINE)


def grown(page: bytes, share: float) -> bytes:
    """The page with every counter so much larger."""
    return GROWS.sub(lambda m: m[1] + b" " + repr(float(m[2]) * (1 + share)).encode(), page)


@contextmanager
def served(pages: list[bytes]) -> Iterator[str]:
    """An address that gives one page after the other."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = pages.pop(0) if len(pages) > 1 else pages[0]
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()


def watch(path: Path, polls: int) -> str:
    """One page's line."""
    page = path.read_bytes()
    pages = [grown(page, number * 1e-4) for number in range(polls)]
    now, spent, reports, bytes_read = [1e9], [], [], len(page)
    with served(pages) as url:
        began_all = time.process_time()
        feed = UrlFeed(url, clock=lambda: now[0])
        for _ in range(polls):
            before, judged = time.thread_time(), feed._judged_page  # noqa: SLF001 - what a report costs
            view = feed.poll(lambda *_: None, lambda: False)
            spent.append(time.thread_time() - before)
            if feed._judged_page != judged:  # noqa: SLF001
                reports.append(feed._paced.last_s)  # noqa: SLF001
            now[0] += 1.0
        feed.close()
        everything = (time.process_time() - began_all) / polls
    steady = slice(polls // 6, None)
    share = sum(spent[steady]) / len(spent[steady])
    alone = sorted(spent)[: len(spent) // 2]
    return (
        f"{path.name:<32} {bytes_read:>8,} B {view.word:<6} {share:>6.2%} of a core (at most {everything:.2%} with the answering "
        f"server and start-up); a poll {statistics.median(alone) * 1e3:.1f} ms, {len(reports)} reports of "
        f"{statistics.median(reports) * 1e3:.0f} ms"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", type=Path, nargs="+", help="a page of /metrics")
    parser.add_argument("--polls", type=int, default=600, help="seconds of watching (default: 600)")
    args = parser.parse_args()
    for path in args.page:
        print(watch(path, args.polls))
    print(
        f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MiB, server and all pages included"
    )


if __name__ == "__main__":
    main()
