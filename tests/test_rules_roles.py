"""Target or draft, and variants that must not run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from recording_kit import call, captured, count, replayed, steps, write
from rules_kit import ATTEND, COMPLETE, DECODE, HIDING, KNOWN, PREFILL, cells, judged, path_row, result, served
from served_kit import config, server
from tree import ROOT

from m3probe.errors import UsageError
from m3probe.model.judgement import RuleResult
from m3probe.model.path_report import PathRow
from m3probe.model.recording import Recording
from m3probe.pipeline import read, report
from m3probe.rules import judge, load_rules
from m3probe.rules._roles import Drafter, drafter
from m3probe.schema import records
from m3probe.schema.setup import Setup

VERIFIED = "execute_context_0(0)_generation_2(8)"
EAGLE = {"method": "eagle3", "num_speculative_tokens": 3}


def with_setup(rec: Recording, draft: dict[str, Any] | None) -> Recording:
    return replace(rec, meta=replace(rec.meta, setup=Setup(draft=draft)))


def one(tmp_path: Path, rec: Recording, rule: str) -> tuple[str, str]:
    found = result(tmp_path, rec, rule)
    return str(found.outcome), found.why


KERNEL = 'kernel = "_gqa*"\nphase = "decode"\n'


def test_who_drafts_is_told_by_marks_first_then_by_the_configuration(tmp_path: Path) -> None:
    plain = served(tmp_path, (DECODE, [ATTEND]))
    assert drafter(plain) is Drafter.UNKNOWN
    assert drafter(with_setup(plain, None)) is Drafter.NONE
    assert drafter(with_setup(plain, EAGLE)) is Drafter.SOME
    # 2 requests decode 8 rows: each verifies drafted tokens, whatever a configuration says
    assert drafter(with_setup(served(tmp_path, (VERIFIED, [ATTEND])), None)) is Drafter.SOME


@pytest.mark.parametrize(
    ("draft", "rule", "outcome", "why"),
    [
        (None, 'role = "target"\nper_step = 1', "holds", ""),
        (None, 'role = "target"\nper_step = 2', "failed", ""),
        (None, 'role = "draft"\nper_step = 1', "failed", "the server's configuration has no draft model"),
        (None, 'role = "draft"\nforbid = true', "inconclusive", "the server's configuration has no draft model"),
        (EAGLE, 'role = "target"\nper_step = 1', "inconclusive", "target and draft model run in one step"),
        (EAGLE, 'role = "draft"\nper_step = 1', "inconclusive", "target and draft model run in one step"),
    ],
)
def test_kernels_by_role(tmp_path: Path, draft: dict[str, Any] | None, rule: str, outcome: str, why: str) -> None:
    rec = with_setup(served(tmp_path, (DECODE, [ATTEND])), draft)
    found, said = one(tmp_path, rec, KERNEL + rule)
    assert found == outcome
    assert said.startswith(why)


def test_a_trace_alone_does_not_tell_roles(tmp_path: Path) -> None:
    rec = served(tmp_path, (DECODE, [ATTEND]))
    for role in ("target", "draft"):
        found = result(tmp_path, rec, f'{KERNEL}role = "{role}"\nper_step = 1')
        assert (str(found.outcome), "is not known" in found.why) == ("inconclusive", True)
        assert "--recipe" in found.next_move
        assert f"of the {role} model" in found.rule


def drafting(tmp_path: Path, *found: object) -> Recording:
    """A live server that drafts 3 tokens with EAGLE3."""
    speculative = {"class": "SpeculativeConfig", **EAGLE}
    held = [server(), config(speculative=speculative), steps(count("decode", 10)), *found]
    return read([write(tmp_path / "worker.m3p", held)])


def path(tmp_path: Path, rec: Recording, rule: str) -> RuleResult:
    rules = tmp_path / "rules.toml"
    rules.write_text(f"[[rule]]\n{rule}\n")
    return judge(load_rules(rules), rec, report(rec).answer).results[0]


MOE = 'path = "moe_backend"\nverdict = "executed"\n'


def test_marked_calls_are_told_apart(tmp_path: Path) -> None:
    rec = drafting(
        tmp_path,
        call("moe_backend", "AITER CK", count=20),
        call("moe_backend", "Triton fused_moe", count=5, facts={"draft": True}),
    )
    for role, variant, calls in (("target", "AITER CK", 20), ("draft", "Triton fused_moe", 5)):
        found = path(tmp_path, rec, f'{MOE}role = "{role}"\nvariant = "{variant}"')
        assert (str(found.outcome), found.observed) == ("holds", f"{calls} calls of {variant}")
        assert found.basis == "paths"
    found = path(tmp_path, rec, f'{MOE}role = "draft"\nvariant = "AITER CK"')
    assert (str(found.outcome), found.why) == ("failed", "Triton fused_moe ran")
    assert "--moe-backend" in found.next_move
    found = path(tmp_path, rec, 'path = "moe_backend"\nrole = "draft"\nforbid_variants = ["Triton fused_moe"]')
    assert str(found.outcome) == "failed"


def test_captured_calls_count_with_the_replays_of_their_own_batch(tmp_path: Path) -> None:
    target = records.Descriptor(id=0, mode="FULL", padded_rows=8)
    draft = records.Descriptor(id=1, mode="FULL", padded_rows=8, draft=True)
    rec = drafting(
        tmp_path,
        target,
        draft,
        captured("moe_backend", "AITER CK", descriptor=0, count=2),
        captured("moe_backend", "Triton fused_moe", descriptor=1, count=1),
        steps(replayed(0, 7, 8, 8), draft_replays={1: 21}),
    )
    assert path(tmp_path, rec, f'{MOE}role = "target"').observed == "14 calls of AITER CK"  # 2 x 7 replays
    assert path(tmp_path, rec, f'{MOE}role = "draft"').observed == "21 calls of Triton fused_moe"


def test_no_marked_call_is_inconclusive(tmp_path: Path) -> None:
    rec = drafting(tmp_path, call("moe_backend", "AITER CK", count=20))
    found = path(tmp_path, rec, f'{MOE}role = "draft"')
    assert (str(found.outcome), found.why) == ("inconclusive", "no guest saw a call of this path by the draft model")


def test_the_real_sample_has_no_drafter(tmp_path: Path) -> None:
    rec = read([ROOT / "samples" / "live-h200-m3-graph"])
    assert drafter(rec) is Drafter.NONE
    rule = 'path = "sparse_attention"\nphase = "decode"\nverdict = "executed"\nrole = '
    assert str(path(tmp_path, rec, f'{rule}"target"').outcome) == "holds"
    assert str(path(tmp_path, rec, f'{rule}"draft"').outcome) == "failed"


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ('role = "drafter"\nkernel = "a"\nforbid = true', "Did you mean 'draft'?"),
        ('role = "draft"\npath = "moe_backend"\nverdict = "off"', "role tells who ran a path"),
        ('forbid_variants = ["Triton"]\nkernel = "a"', "forbid_variants belongs to a path rule"),
        ('forbid_variants = ["Tritn"]\npath = "sparse_attention"', "unknown variant 'Tritn'. Did you mean 'Triton'?"),
        ('forbid_variants = []\npath = "sparse_attention"', "must list variants"),
        ('forbid_variants = "Triton"\npath = "sparse_attention"', "must list variants"),
        ('forbid_variants = ["Triton"]\nforbid = true\npath = "sparse_attention"', "in the place of forbid"),
        (
            'forbid_variants = ["Triton"]\npath = "sparse_attention"\nverdict = "executed"\nvariant = "Triton"',
            "contradictory: executed as Triton; never as Triton",
        ),
        ('path = "moe_backend"\nverdict = "off"\nper_step = 1', "it needs verdict = 'executed'"),
    ],
)
def test_keys_that_do_not_fit_are_refused(tmp_path: Path, lines: str, said: str) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text(f"[[rule]]\n{lines}\n")
    with pytest.raises(UsageError, match="rule 1") as caught:
        load_rules(rules)
    assert said in caught.value.sentence()


# --- forbidden variants ---------------------------------------------------------------------------------------

GRAPHS = 'path = "graph_replay"\n'


def test_forbid_on_a_path_forbids_every_fallback(tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rule]]\npath = "aiter_sparse_pa"\nforbid = true\n')
    assert load_rules(rules).rules[0].forbidden == ("Triton",)
    assert load_rules(rules).rules[0].text == "path aiter_sparse_pa: never as Triton"


def test_a_rule_that_forbids_a_variant_contradicts_one_that_asks_for_it(tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text(
        f'[[rule]]\n{GRAPHS}forbid_variants = ["eager"]\n[[rule]]\n{GRAPHS}verdict = "executed"\nvariant = "eager"\n'
    )
    with pytest.raises(UsageError, match="contradicts rule 1"):
        load_rules(rules)


@pytest.mark.parametrize(
    ("row", "outcome"),
    [
        (
            replace(
                path_row("executed"), cells=tuple(replace(c, executed=8) for c in cells("FULL", decode="executed"))
            ),
            "holds",
        ),
        (path_row("executed"), "inconclusive"),  # 7 of 8 steps show what ran
        (replace(path_row("off"), cells=cells("eager", decode="off")), "failed"),
        (replace(path_row("unproven"), cells=cells("", absent=2, decode="unproven")), "failed"),
        (
            replace(
                path_row("unproven"), cells=tuple(replace(c, calls=0, executed=0) for c in cells("", decode="unproven"))
            ),
            "inconclusive",
        ),
    ],
)
def test_eager_steps_are_seen_or_ruled_out(tmp_path: Path, row: PathRow, outcome: str) -> None:
    rec = served(tmp_path, (DECODE, [ATTEND]))
    rules = judged_shelf(tmp_path, rec, GRAPHS + 'phase = "decode"\nforbid_variants = ["eager"]', row)
    assert str(rules.outcome) == outcome


def judged_shelf(tmp_path: Path, rec: Recording, rule: str, row: PathRow, trust: Any = COMPLETE) -> RuleResult:
    assert KNOWN.variants("graph_replay") == ("FULL", "PIECEWISE", "eager")
    return judged(tmp_path, rec, f"[[rule]]\n{rule}\n", trust, [row]).results[0]


def test_what_may_be_hidden_leaves_the_absence_open_and_what_was_seen_fails(tmp_path: Path) -> None:
    rec = served(tmp_path, (DECODE, [ATTEND]))
    whole = replace(path_row("executed"), cells=tuple(replace(c, executed=8) for c in cells("FULL", decode="executed")))
    rule = GRAPHS + 'phase = "decode"\nforbid_variants = ["eager"]'
    assert str(judged_shelf(tmp_path, rec, rule, whole, HIDING).outcome) == "inconclusive"
    seen = replace(path_row("off"), cells=cells("eager", decode="off"))
    assert str(judged_shelf(tmp_path, rec, rule, seen, HIDING).outcome) == "failed"


@pytest.mark.parametrize(
    ("rule", "outcome"),
    [
        ('path = "sparse_attention"\nphase = "decode"\nforbid_variants = ["Triton"]', "failed"),
        # AITER's names come from source: that none matches proves nothing
        ('path = "sparse_attention"\nphase = "decode"\nforbid_variants = ["AITER page-16"]', "inconclusive"),
        ('path = "moe_backend"\nphase = "decode"\nforbid_variants = ["triton_kernels"]', "holds"),
        ('path = "moe_backend"\nphase = "decode"\nforbid_variants = ["Triton fused_moe"]', "failed"),
        ('path = "graph_replay"\nphase = "decode"\nforbid = true', "holds"),
        ('path = "graph_replay"\nphase = "prefill"\nforbid = true', "failed"),
    ],
)
def test_forbidden_variants_on_the_graph_sample(tmp_path: Path, rule: str, outcome: str) -> None:
    rec = read([ROOT / "samples" / "h200-m3-tp4rank-graph.pt.trace.json.gz"])
    assert str(path(tmp_path, rec, rule).outcome) == outcome


def test_a_fallback_beside_the_fast_variant_is_found_by_its_kernels(tmp_path: Path) -> None:
    """Both run in a decode step: the report's row names the fast one alone."""
    both = [("flydsl_moe1_afp8_wfp8_bf16_t64", 5.0), ("flydsl_moe2_afp8_wfp8_bf16_t64", 5.0), ("fused_moe_kernel", 5.0)]
    rec = served(tmp_path, (PREFILL, both), (DECODE, both))
    found = path(tmp_path, rec, 'path = "mxfp8_moe"\nphase = "decode"\nforbid_variants = ["Triton fused_moe"]')
    assert (str(found.outcome), found.observed) == ("failed", "Triton fused_moe: 1 launches of its kernel")
    assert found.evidence[0].table == "kernels"
