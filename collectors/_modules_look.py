"""Reads attributes of vLLM's objects without running its code more than needed: what is missing or odd is unknown."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

PLAIN = (str, int, float, bool)


def get(owner: Any, *names: str) -> Any:
    """The first of these attributes that is there and not None; a property that raises is not there."""
    for name in names:
        try:
            found = getattr(owner, name, None)
        except Exception:  # noqa: BLE001 - vLLM's properties assert what holds only in other configurations
            found = None
        if found is not None:
            return found
    return None


def number(owner: Any, *names: str) -> int:
    """The first of these attributes that is a whole number; -1 without one."""
    for name in names:
        found = get(owner, name)
        if isinstance(found, int) and not isinstance(found, bool):
            return found
    return -1


def cls(owner: Any) -> str:
    """Name of the class; empty for None."""
    return "" if owner is None else type(owner).__name__


def is_a(owner: Any, *names: str) -> bool:
    """Whether a class of this name is among its classes: vLLM moves them between modules, and they are not imported for it."""
    return any(kind.__name__ in names for kind in type(owner).__mro__)


def dtype(value: Any) -> str:
    """A torch dtype, or a tensor's, without ``torch.``; empty for None."""
    found = get(value, "dtype") if get(value, "dtype") is not None else value
    return "" if found is None else str(found).removeprefix("torch.")


def shape(tensor: Any) -> tuple[int, ...]:
    """Dims of a tensor; empty where there is none."""
    return tuple(int(n) for n in get(tensor, "shape") or ())


def word(value: Any) -> str:
    """An enum's value (vLLM names activations so), a type's name, else the text."""
    found = get(value, "value")
    if isinstance(found, str):
        return found
    return value.__name__ if isinstance(value, type) else str(value)


def plain(owner: Any, names: dict[str, str]) -> dict[str, Any]:
    """Those attributes that are plain values, under the names of ``names``' values."""
    found = {said: get(owner, name) for name, said in names.items()}
    return {said: value for said, value in found.items() if isinstance(value, PLAIN)}


def models(worker: Any) -> Iterator[tuple[Any, bool]]:
    """The worker's model, then its draft model (True), as bare modules; either runner, any wrapper."""
    runner = get(worker, "model_runner")
    target = _bare(_called(get(runner, "get_model")) or get(runner, "model"))
    if target is not None:
        yield target, False
    drafter = get(runner, "drafter", "speculator")  # V1, V2
    draft = _bare(get(drafter, "model"))
    if draft is not None and draft is not target:
        yield draft, True


def _bare(model: Any) -> Any:
    """Without the graph wrappers that stand around a model: they pass attributes on and hold no modules."""
    for _ in range(4):
        unwrap = getattr(type(model), "unwrap", None)
        if unwrap is None:
            break
        model = _called(model.unwrap)
    return model if callable(getattr(model, "named_modules", None)) else None


def _called(method: Callable[[], Any] | None) -> Any:
    try:
        return None if method is None else method()
    except Exception:  # noqa: BLE001 - a runner without a model yet
        return None
