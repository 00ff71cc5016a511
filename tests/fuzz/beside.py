"""Files that a user names beside a run: tuned tables of AITER and TunableOp, results of evaluations, files of cosines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fuzz import damage
from fuzz.harness import Format, Sample, bounded, refused, written
from hypothesis import strategies as some
from hypothesis.strategies import DrawFn

from m3probe.errors import UnreadableInput
from m3probe.readers.eval_results import read_cosines, read_scores
from m3probe.readers.tuned_tables import read_tuned_table

GEMM = ["cu_num", "M", "N", "K", "bias", "dtype", "outdtype", "libtype", "solidx", "us", "kernelName"]
READ = {
    "gemm.csv": read_tuned_table,
    "tunable.csv": read_tuned_table,
    "eval.json": read_scores,
    "cos.json": read_cosines,
}


@some.composite
def table(draw: DrawFn, name: str) -> list[list[str]]:
    """Rows of a tuned table; the head, or the validator, is row 0."""
    sizes = draw(some.lists(some.tuples(*[some.integers(1, 10**6)] * 3), min_size=1, max_size=5, unique=True))
    if name == "gemm.csv":
        body = [[*("256", str(m), str(n), str(k), "False"), *("torch.bfloat16",) * 2, "hipblaslt", "7", "5.5", "Cijk_A"]
                for m, n, k in sizes]  # fmt: skip
        return [GEMM, *body]
    body = [["GemmTunableOp_BFloat16_TN", f"tn_{n}_{m}_{k}", "Gemm_Hipblaslt_7", "0.0055"] for m, n, k in sizes]
    return [["Validator", "PT_VERSION", "2.9.0"], *body]


@some.composite
def samples(draw: DrawFn) -> Sample:
    """Whole, saying how many entries it has, or not."""
    name, sound = draw(some.sampled_from(sorted(READ))), draw(some.booleans())
    if name.endswith(".csv"):
        rows = draw(table(name))
        said = len(rows) - 1
        rows = rows if sound else draw(damage.spoilt_rows(rows))
        data = "\n".join(",".join(row) for row in [*rows, []]).encode("utf-8", "surrogatepass")
    else:
        values = draw(some.lists(some.integers(0, 1000), min_size=1, max_size=5))
        tree: Any = {f"layer{n}": value / 1000 for n, value in enumerate(values)}
        if name == "eval.json":
            tree = {"results": {task: {"exact_match,strict-match": value} for task, value in tree.items()}}
        said = len(values)
        data = draw(damage.as_json(tree if sound else draw(damage.spoilt_tree(tree))))
    data = data if sound or draw(some.booleans()) else draw(damage.spoilt_bytes(data))
    return Sample({name: data}, {"entries": said} if sound else {})


def look(sample: Sample, root: Path) -> None:
    """Read it."""
    (path,) = written(sample, root)
    with bounded():
        try:
            found: Any = READ[path.name](path.read_bytes(), str(path))
        except UnreadableInput as error:
            assert not sample.says, f"a sound file is refused: {error}"
            refused(error)
            return
    entries = found.rows if path.suffix == ".csv" else found
    assert not sample.says or len(entries) == sample.says["entries"]


FORMAT = Format("beside", samples(), look)
