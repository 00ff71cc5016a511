"""Target or draft: whose model ran it, as far as a recording tells.

Both models run in one step and share kernel names, so a profiler's trace of a server that drafts tells nothing. What
tells: a configuration without a drafter, and calls that guests marked as the draft model's.
"""

from __future__ import annotations

import json
from collections import Counter
from enum import Enum

from m3probe.model.judgement import RuleResult
from m3probe.model.recording import Recording
from m3probe.model.tables import NONE
from m3probe.rules._result import FAILED, HOLDS, INCONCLUSIVE, nothing, result
from m3probe.rules._view import View
from m3probe.rules.file import FAST_PATHS
from m3probe.rules.rule import DRAFT, Rule
from m3probe.schema.paths import FastPath
from m3probe.schema.roles import Stage

_SEEN = frozenset({str(Stage.EAGER), str(Stage.TWIN)})
OF_THE_DRAFT = "draft_attention"
"""The path that is about the draft model alone: its calls carry no mark."""
_TELL = "Give --recipe FILE (the server's command), or record with m3probe attach: guests mark the draft model's calls."


class Drafter(Enum):
    """Whether the server had a draft model."""

    NONE = "none"
    SOME = "some"
    UNKNOWN = "unknown"


def drafter(rec: Recording) -> Drafter:
    """By marks of the draft model first, then by the configuration."""
    marked = any(bool((rec.tables[name]["draft"] == 1).any()) for name in ("modules", "kv_layers", "descriptors"))
    steps = rec.steps
    decodes = (steps["ctx_tokens"] == 0) & (steps["gen_reqs"] > 0)
    verifies = bool((decodes & (steps["gen_tokens"] > steps["gen_reqs"])).any())
    if marked or len(rec.tables["draft_replays"]) or verifies:
        return Drafter.SOME
    setup = rec.meta.setup
    if setup is None:
        return Drafter.UNKNOWN
    return Drafter.SOME if setup.draft else Drafter.NONE


def by_role(rule: Rule, view: View) -> RuleResult | None:
    """The result where the role alone decides it; None: judge the rule as if it named no role."""
    if not rule.role or (rule.kind == "path" and rule.name == OF_THE_DRAFT and rule.role == DRAFT):
        return None
    there = drafter(view.rec)
    if there is Drafter.UNKNOWN:
        return nothing(rule, "whether a draft model ran is not known, and it would share kernels and steps", _TELL)
    if there is Drafter.NONE:
        return _no_drafter(rule) if rule.role == DRAFT else None
    if rule.kind != "path":
        why = "target and draft model run in one step and share kernel names: kernels do not tell whose they are"
        return nothing(rule, why, "Ask for the path instead (path = ..., role = ...) on a recording of m3probe attach.")
    path = FAST_PATHS.load(rule.name)
    return _marked(rule, view, path) if path else None


def _no_drafter(rule: Rule) -> RuleResult:
    why = "the server's configuration has no draft model"
    move = "Start the server with --speculative-config, or drop this rule."
    low = [span.low for span in (rule.per_step, rule.count, rule.share) if span is not None]
    if rule.verdict or any(low):
        return result(rule, FAILED, "no draft model", "configuration", why, next_move=move)
    return nothing(rule, why, move)


def _marked(rule: Rule, view: View, path: FastPath) -> RuleResult:
    ran = variants_of(view.rec, rule)
    if not ran:
        why = f"no guest saw a call of this path by the {rule.role} model"
        return nothing(rule, why, "Record from the server's start (M3PROBE=1), so that captured calls are known too.")
    known = {variant.name: variant for variant in path.variants}
    observed = ", ".join(f"{count:,} calls of {name}" for name, count in ran.most_common())
    wrong = [name for name in ran if name in rule.forbidden]
    if rule.verdict:
        wrong += [name for name in ran if rule.variant not in ("", name)]
        wrong += [name for name in ran if not path.chooses and (name not in known or not path.executes(known[name]))]
    if wrong:
        move = f"Asked for by: {path.configured}. Instead: {path.instead}" if path.instead else path.configured
        return result(rule, FAILED, observed, "paths", f"{', '.join(dict.fromkeys(wrong))} ran", next_move=move)
    if rule.per_step:
        return result(
            rule, INCONCLUSIVE, observed, "paths", "calls per step are not counted by role", next_move=_NO_COUNT
        )
    return result(rule, HOLDS, observed, "paths")


_NO_COUNT = "Leave per_step out of a rule with a role."


def variants_of(rec: Recording, rule: Rule) -> Counter[str]:
    """Calls by variant that one role's model made: seen in steps, or at capture of a batch that was replayed."""
    table, strings = rec.tables["dispatches"], rec.strings
    wants_draft = rule.role == DRAFT
    replayed = _replayed(rec, draft=wants_draft)
    found: Counter[str] = Counter()
    for row in (table["path"] == strings.find(rule.name)).nonzero()[0].tolist():
        file, descriptor = int(table["file"][row]), int(table["descriptor"][row])
        variant, stage = strings[int(table["variant"][row])], strings[int(table["stage"][row])]
        if not variant or _is_draft(rec, strings[int(table["facts"][row])], file, descriptor) != wants_draft:
            continue
        if rule.rank is not None and rec.files[file].rank != rule.rank:
            continue
        phase = strings[int(table["phase"][row])]
        if stage in _SEEN and rule.phase in (None, phase):
            found[variant] += int(table["count"][row])
        elif stage == Stage.CAPTURE:
            times = sum(
                n for (f, d, of), n in replayed.items() if (f, d) == (file, descriptor) and rule.phase in (None, of)
            )
            found[variant] += int(table["count"][row]) * times
    return +found


def _is_draft(rec: Recording, facts: str, file: int, descriptor: int) -> bool:
    if descriptor != NONE:
        table = rec.tables["descriptors"]
        of = (table["file"] == file) & (table["id"] == descriptor) & (table["draft"] == 1)
        if bool(of.any()):
            return True
    try:
        said = json.loads(facts) if facts else {}
    except ValueError:
        return False
    return isinstance(said, dict) and said.get("draft") is True


def _replayed(rec: Recording, *, draft: bool) -> Counter[tuple[int, int, str]]:
    """(file, descriptor, phase) -> steps that replayed it; a draft model's replays are counted without their phase."""
    found: Counter[tuple[int, int, str]] = Counter()
    if draft:
        table = rec.tables["draft_replays"]
        for row in range(len(table)):
            found[int(table["file"][row]), int(table["descriptor"][row]), ""] += int(table["count"][row])
        return found
    table, worker = rec.tables["step_counts"], rec.strings.find("worker")
    for row in (
        ((table["role"] == worker) & (table["replays"] > 0) & (table["descriptor"] != NONE)).nonzero()[0].tolist()
    ):
        key = (int(table["file"][row]), int(table["descriptor"][row]), rec.strings[int(table["phase"][row])])
        found[key] += min(int(table["count"][row]), int(table["replays"][row]))
    return found
