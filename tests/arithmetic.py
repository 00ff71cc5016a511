"""A small evaluator of ``Bound.arithmetic``, written apart from the code that makes it."""

from __future__ import annotations

import ast
import operator
import re

import pytest

from m3probe.model.findings import Bound, Finding

_UNIT = re.compile(r"(?<=\d)\s+(?!min\b|max\b)[a-zA-Z%]+")
_ON = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}
_CALLS = {"min": min, "max": max}


def worth(expression: str) -> float:
    """``(52,000 ns - 40,000 ns) / 65,000 ns`` -> 0.1846...; anything but numbers, + - * /, min and max is an error."""
    plain = re.sub(r"(?<=\d),(?=\d{3})", "", _UNIT.sub("", expression))
    return _value(ast.parse(plain, mode="eval").body)


def _value(node: ast.expr) -> float:
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return float(node.value)
    if isinstance(node, ast.BinOp):
        return float(_ON[type(node.op)](_value(node.left), _value(node.right)))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return float(_CALLS[node.func.id](*(_value(arg) for arg in node.args)))
    raise ValueError(f"no arithmetic: {ast.dump(node)}")


def check(bound: Bound) -> None:
    """The last expression gives ``high``, the first ``low`` where that is above 0 and there are two."""
    assert bound.arithmetic, bound.formula
    assert worth(bound.arithmetic[-1]) == pytest.approx(bound.high, rel=1e-6, abs=1e-9)
    if bound.low > 0:
        assert worth(bound.arithmetic[0]) == pytest.approx(bound.low, rel=1e-6)
    assert 0 <= bound.low <= bound.high
    assert bound.basis, bound.formula


def check_all(findings: tuple[Finding, ...]) -> int:
    """Every bound of a report; returns how many there were."""
    bounds = [finding.bound for finding in findings if finding.bound is not None]
    for bound in bounds:
        check(bound)
    return len(bounds)
