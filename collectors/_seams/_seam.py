"""What a seam is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Seam:
    """One attribute of vLLM.

    Args:
        module: dotted module.
        name: qualified name in it (``Worker.load_model``).
        needs: parameters that the hook reads; others may come and go.
        also: modules that hold their own copy by ``from X import f``, as ``module:name``.
        why: what is seen there.
        early: it must be hooked before the model is loaded.
    """

    module: str
    name: str
    why: str
    needs: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    early: bool = False
