"""Rules on ranks that must be alike: any difference fails, with both values."""

from __future__ import annotations

from m3probe.model.agreement import compare
from m3probe.model.findings import Evidence
from m3probe.model.judgement import RuleResult
from m3probe.rules._advice import by_trust
from m3probe.rules._result import FAILED, HOLDS, INCONCLUSIVE, joined, nothing, result
from m3probe.rules._view import View
from m3probe.rules.rule import Rule

SHOWN = 4
_MOVES = {
    "environment": "Start every rank with the same variables (the launcher's, the image's, the pod's).",
    "versions": "Run every rank from one image, on GPUs of one kind.",
    "tuned_tables": "Give every rank the same AITER_CONFIG_* tables.",
    "backends": "Look in that rank's log for the guard that refused, and at its environment.",
    "census": "Look at that rank's backends and environment: the others wait for it in every collective.",
}


def judge_agree(rule: Rule, view: View) -> RuleResult:
    """Every rank against the first one."""
    found = compare(view.rec, rule.name)
    if found.why:
        return nothing(rule, found.why, f"{found.tell}." if found.tell else "")
    ranks = f"{len(found.ranks)} ranks"
    if not found.differences:
        return result(rule, HOLDS, f"{found.keys:,} keys equal on {ranks}", "ranks")
    said = [difference.sentence for difference in found.differences]
    told = tuple(Evidence("ranks", (), 1, text) for text in said[:SHOWN])
    observed = f"{len({d.key for d in found.differences}):,} of {found.keys:,} keys differ over {ranks}"
    where = joined(said, SHOWN)
    lost = joined(view.hiding()) if found.records else ""
    if lost:
        return result(
            rule, INCONCLUSIVE, observed, "ranks", f"kernels may be missing: {lost}", told, where, by_trust(view.trust)
        )
    return result(
        rule, FAILED, observed, "ranks", "", told, where, f"The ranks are not one server. {_MOVES[rule.name]}"
    )
