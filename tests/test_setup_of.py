"""From a command line to a setup: which speculative method vLLM ends up with."""

from __future__ import annotations

import json

import pytest
from recipes import judged

from m3probe.recipe.setup_of import method_of

EAGLE3 = "Inferact/MiniMax-M3-EAGLE3"


@pytest.mark.parametrize(
    ("said", "method"),
    [
        ({"model": EAGLE3}, "eagle3"),
        ({"model": "yuhuili/EAGLE-LLaMA3-Instruct-8B"}, "eagle"),
        ({"model": "a/eagle-of-eagle3"}, "eagle"),  # eagle- is asked first
        ({"model": "z-lab/M3-DFlash"}, "dflash"),
        ({"model": "a/dspark_m3"}, "dspark"),
        ({"model": "ngram"}, "ngram"),
        ({"model": "pkg.proposers.Mine"}, "custom_class"),
        ({"model": "a/small-model"}, None),  # its config.json decides
        ({"model": EAGLE3, "method": "draft_model"}, "eagle3"),  # the name decides over a stated draft_model
        ({"model": EAGLE3, "method": "eagle"}, "eagle"),
        ({"method": "minimax_m3_mtp"}, "mtp"),
        ({"method": "suffix"}, "suffix"),
        ({}, None),
    ],
)
def test_the_method_is_read_from_the_draft_models_name(said: dict[str, str], method: str | None) -> None:
    """SpeculativeConfig.__post_init__: config/speculative.py:742 at 0.24, :1445 at 0.33."""
    assert method_of(said) == method


def test_an_unnamed_eagle3_drafter_is_no_other_drafter() -> None:
    """The monokernel takes eagle3 alone, and vLLM calls this drafter so."""
    draft = json.dumps({"model": EAGLE3, "num_speculative_tokens": 3})
    report = judged("0.33.0", f"--speculative-config '{draft}' --monokernel")
    texts = [need.text for line in report.paths for at in line.at for need in at.needs]
    assert not any("drafter None" in text for text in texts)
    assert "drafter eagle3, only eagle3" in texts
