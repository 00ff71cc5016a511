"""Counts and shares on real tensors, in the environment that has torch: against counts made one by one."""

import subprocess
from pathlib import Path

from live_kit import mounted, vllm_python

COUNT = """
import random
import torch
from m3probe.collectors._routing_count import Tables, add, shared_share
from m3probe.collectors._routing_layers import Layer

random.seed(7)
layers = {1: Layer("a", 8, 1, 0), 2: Layer("b", 6, 0, 1)}
tables = Tables(layers, torch.device("cpu"))
tables.clear()
for layer in layers.values():
    known = layer.experts + layer.shared
    for dtype in (torch.int32, torch.int64):
        rows = [[random.randint(-1, known + 2) for _ in range(3)] for _ in range(50)]
        ids = torch.tensor(rows, dtype=dtype)
        before = tables.counts[layer.row].tolist()
        with torch.inference_mode():
            add(ids, layer, tables.counts, tables.one)
        assert ids.tolist() == rows, "vLLM's ids were written to"
        flat = [i for row in rows for i in row]
        new = [a - b for a, b in zip(tables.counts[layer.row].tolist(), before)]
        assert new[0] == sum(i < 0 for i in flat)
        assert new[1 : known + 1] == [flat.count(e) for e in range(known)]
        assert new[known + 1] == sum(i >= known for i in flat)
        assert sum(new) == 150

before = torch.tensor([[0, 1], [2, 3], [-1, 5]])
after = torch.tensor([[1, 7], [3, 2], [-1, 5]])
# row 0: one of two, row 1: both, row 2: one of its one valid id
assert abs(shared_share(before, after).item() - 4 / 5) < 1e-6
assert abs(shared_share(after, before).item() - 4 / 5) < 1e-6

copy = tables.copy({0: (50, 3, -1)}, 1)
assert copy.ready() and copy.counts.tolist() == tables.counts.tolist()
tables.counts.zero_()
assert copy.counts.sum().item() == 600
assert [tables.copy({}, 1) is None for _ in range(4)] == [False, False, False, True]
print("same")
"""


def test_the_table_counts_as_one_counts_by_hand(tmp_path: Path) -> None:
    """Both dtypes of ids, ids below zero, ids that no expert has; the ids themselves stay as they are."""
    env = {"PYTHONPATH": str(mounted(tmp_path / "site")), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    done = subprocess.run(
        [str(vllm_python()), "-c", COUNT],
        check=False,
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (done.returncode, done.stdout.strip()) == (0, "same"), done.stderr[-2000:]
