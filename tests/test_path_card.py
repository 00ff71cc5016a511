"""``recipe --explain``: the catalogue's own entry, each part of it, for every path of the shelf."""

from __future__ import annotations

import pytest
from command_kit import ran

from m3probe.fastpaths import fast_paths
from m3probe.gates import gates
from m3probe.present.path_card import path_card


@pytest.mark.parametrize("name", sorted(fast_paths()))
def test_every_part_of_an_entry_is_shown(name: str) -> None:
    path = fast_paths()[name]
    page = path_card(name, path, {n: gate.title for n, gate in gates().items()}, 100, color=False)
    text = " ".join(page.split())
    parts = [path.title, path.configured, path.default, path.instead, *path.logs, *path.functions, *path.sources]
    parts += [part for effect in path.effects for part in (effect.text, effect.source)]
    parts += [part for v in path.variants for part in (v.name, *v.anchors, v.calls_per_step, v.source)]
    parts += [need.text for need in path.needs] + [gates()[gate].title for gate in path.gates]
    assert [part for part in parts if " ".join(part.split()) not in text] == []
    assert max(map(len, page.splitlines())) <= 100


def test_the_command_prints_it_and_suggests_a_name() -> None:
    done = ran("recipe", "--explain", "quick_reduce")
    assert done.returncode == 0
    assert "VLLM_ROCM_QUICK_REDUCE_QUANTIZATION" in done.stdout
    assert "measured" in done.stdout
    wrong = ran("recipe", "--explain", "quick_reduc")
    assert wrong.returncode == 2
    assert "Did you mean quick_reduce?" in wrong.stderr
    assert ran("recipe", "--explain", "quick_reduce", "--json").returncode == 2
