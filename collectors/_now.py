"""Where this process is: what hooks of other collectors write beside what they saw.

One plain object, set by ``steps`` and read by ``dispatch``, ``bytes`` and ``routing`` in the same thread: an attribute
read costs 20 ns, and no hook has to look at a forward context, which FULL replays of Model Runner V2 do not have.
"""

from __future__ import annotations

from m3probe.schema.roles import Stage


class Now:
    """The step or the capture that runs now.

    Attributes:
        stage: ``load`` until the model is there, ``warmup`` and ``capture`` until serving, then ``eager`` or ``twin``.
        phase: of the step that runs (``prefill``, ``decode``, ``mixed``), else ``unknown``.
        descriptor: id of the padded batch that is captured or replayed; -1 without one.
        rows: real tokens of the step; -1 outside of steps.
        step: number of the step in this process, counted from 0 over executed steps.
        is_draft: a draft model runs, not the target.
    """

    __slots__ = ("descriptor", "is_draft", "phase", "rows", "stage", "step")

    def __init__(self) -> None:
        self.stage = Stage.LOAD
        self.phase = "unknown"
        self.descriptor = -1
        self.rows = -1
        self.step = -1
        self.is_draft = False


NOW = Now()
