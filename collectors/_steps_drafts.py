"""While a draft model runs, ``NOW.is_draft`` says so; and where the rows that verify its tokens went."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from m3probe.collectors._now import NOW
from m3probe.collectors._patch import around

if TYPE_CHECKING:
    from m3probe.collectors._probe import Probe
    from m3probe.collectors._steps_plan import Plan

SEAM = "step_draft"
"""Of single objects, so it has no entry in the table of seams."""
METHODS = ("propose", "dummy_run", "capture", "capture_model")
"""Of ``runner.drafter`` (V1) and ``runner.speculator`` (V2) at 0.24.0 to 0.33.0; each has some of them."""


def watch_drafts(probe: Probe, runner: Any) -> None:
    """Hook the drafter of a runner, where it has one."""
    drafter = getattr(runner, "drafter", None) or getattr(runner, "speculator", None)

    def begins(*_args: Any, **_kwargs: Any) -> bool:
        before, NOW.is_draft = NOW.is_draft, True
        return before

    def ends(before: Any, *_args: Any, **_kwargs: Any) -> None:
        NOW.is_draft = bool(before)

    for method in METHODS if drafter is not None else ():
        probe.patches.put(SEAM, drafter, method, around(probe.patches, SEAM, before=begins, after=ends))


def builders(runner: Any) -> list[Any]:
    """The attention metadata builders of a runner that serves with drafts: one or more per attention group."""
    if getattr(getattr(runner, "vllm_config", None), "speculative_config", None) is None:
        return []
    found: list[Any] = []
    for groups in getattr(runner, "attn_groups", None) or []:
        for group in groups if isinstance(groups, list) else [groups]:
            found += getattr(group, "metadata_builders", None) or []
    return found


def drafted_on_prefill(plan: Plan, metadata: Any) -> int:
    """Drafted rows that attention metadata puts on its prefill side; -1 where it has none or its sums do not tell.

    A generating request brings one row more than it has drafts. M3's builder splits where requests stop to have equal
    lengths (``split_decodes_and_prefills``), so that verification of unequal drafts counts as prefill.
    """
    requests, rows = getattr(metadata, "num_prefills", None), getattr(metadata, "num_prefill_tokens", None)
    if not isinstance(requests, int) or not isinstance(rows, int):
        return -1
    found = (rows - plan.ctx_rows) - (requests - plan.ctx_reqs)
    return found if requests >= plan.ctx_reqs and 0 <= found <= plan.spec_rows else -1
