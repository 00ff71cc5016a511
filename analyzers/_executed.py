"""The executed view lives in ``m3probe.model.executed``; this name stays until its users have moved."""

from m3probe.model.executed import Executed, executed

__all__ = ["Executed", "executed"]
