"""Formulas of a rules file: ``"2 * layers + 1"``. Numbers, ``+ - * / //``, parentheses and a few names; nothing else.

Python's parser makes the tree and this file works it out itself: a rules file comes from a pull request, so nothing of it
is ever evaluated as code.
"""

from __future__ import annotations

import ast
import operator
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction

MODEL_NAMES = (
    "layers", "dense_layers", "sparse_layers", "moe_layers", "index_layers", "kv_heads", "experts", "top_k",
)  # fmt: skip
SERVER_NAMES = ("tp", "ep", "spec_tokens")
STEP_NAMES = ("rows", "requests")
"""Of one step each: only ``per_step`` can use them."""
NAMES = (*MODEL_NAMES, *SERVER_NAMES, *STEP_NAMES, "steps")

MOST_TEXT = 200
MOST_DEPTH = 20
LARGEST = 2**63 - 1
"""TOML's own limit; nothing that a trace counts is larger."""

_OPERATORS: Mapping[type[ast.operator], Callable[[Fraction, Fraction], Fraction]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: lambda left, right: Fraction(left // right),
}


class FormulaError(ValueError):
    """A formula that cannot be read, or that has no value: what is wrong, in words."""


@dataclass(frozen=True, slots=True)
class Formula:
    """A checked formula; equal when its text is."""

    text: str
    names: frozenset[str]

    def value(self, known: Mapping[str, int]) -> int:
        """The whole number that it is.

        Args:
            known: a value for each of ``names``.

        Raises:
            FormulaError: it divides by zero, or is negative, no whole number or larger than any count.
        """
        found = _worked_out(_tree(self.text), known)
        if found.denominator != 1 or not 0 <= found <= LARGEST:
            wrong = "no whole number" if found.denominator != 1 else "negative" if found < 0 else "too large"
            shown = repr(float(found)) if found.denominator != 1 else _number(found)
            raise FormulaError(f"{self.text} is {shown}, which is {wrong}")
        return int(found)


def read_formula(text: str) -> Formula:
    """A formula from its text.

    Raises:
        FormulaError: too long or too deep, no formula, an unknown name, or it divides by zero whatever the names are.
    """
    tree = _tree(text)
    names = _checked(tree, 1)
    formula = Formula(" ".join(text.split()), frozenset(names))
    if not names:
        formula.value({})
    return formula


def _tree(text: str) -> ast.expr:
    if len(text) > MOST_TEXT:
        raise FormulaError(f"longer than {MOST_TEXT} characters")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python remarks on `1if`, which is refused below
            return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise FormulaError("not a formula") from error


def _checked(node: ast.expr, depth: int) -> set[str]:
    """Names in the tree; a divisor without names is worked out at once."""
    if depth > MOST_DEPTH:
        raise FormulaError(f"nested more than {MOST_DEPTH} deep")
    if isinstance(node, ast.Constant):
        _constant(node)
        return set()
    if isinstance(node, ast.Name):
        if node.id not in NAMES:
            raise FormulaError(f"unknown name {node.id!r}")
        return {node.id}
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        return _checked(node.operand, depth + 1)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        right = _checked(node.right, depth + 1)
        if not right and isinstance(node.op, ast.Div | ast.FloorDiv) and not _worked_out(node.right, {}):
            raise FormulaError("it divides by zero")
        return _checked(node.left, depth + 1) | right
    raise FormulaError("only numbers, names, + - * / // and parentheses can stand in a formula")


def _constant(node: ast.Constant) -> Fraction:
    value = node.value
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= LARGEST:
        raise FormulaError("only numbers, names, + - * / // and parentheses can stand in a formula")
    return Fraction(str(value)) if isinstance(value, float) else Fraction(value)


def _worked_out(node: ast.expr, known: Mapping[str, int]) -> Fraction:
    if isinstance(node, ast.Constant):
        return _constant(node)
    if isinstance(node, ast.Name):
        return Fraction(known[node.id])
    if isinstance(node, ast.UnaryOp):
        inner = _worked_out(node.operand, known)
        return -inner if isinstance(node.op, ast.USub) else inner
    assert isinstance(node, ast.BinOp)  # _checked let nothing else through
    left, right = _worked_out(node.left, known), _worked_out(node.right, known)
    try:
        return _OPERATORS[type(node.op)](left, right)
    except ZeroDivisionError as error:
        said = ", ".join(f"{n.id} = {known[n.id]}" for n in ast.walk(node.right) if isinstance(n, ast.Name))
        raise FormulaError(f"it divides by zero{f' ({said})' if said else ''}") from error


def _number(value: Fraction) -> str:
    return f"{value.numerator:,}" if value.denominator == 1 else f"{float(value):g}"
