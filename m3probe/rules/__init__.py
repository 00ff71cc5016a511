"""Rules files: what ``m3probe assert`` and the pytest plugin judge by (docs/assert.md)."""

from m3probe.rules.file import RulesFile, load_rules
from m3probe.rules.formula import Formula
from m3probe.rules.judge import judge
from m3probe.rules.rule import Rule, Span

__all__ = ["Formula", "Rule", "RulesFile", "Span", "judge", "load_rules"]
