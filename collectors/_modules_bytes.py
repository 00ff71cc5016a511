"""Bytes of parameters and buffers by storage: what several modules share is counted at the first of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any


class Storages:
    """Storages met so far, over all models of a worker."""

    def __init__(self) -> None:
        self._owner: dict[int, str] = {}
        self.total = 0
        """Bytes of all of them."""

    def add(self, owner: str, tensors: Iterable[Any]) -> tuple[int, str]:
        """Bytes of these tensors' storages that nobody had before, and the owner of one that somebody had.

        A storage counts whole, padding included: that is what it occupies. A meta tensor has none: numel x itemsize.
        """
        found, sharer = 0, ""
        for tensor in tensors:
            at, size = _storage(tensor)
            if not size:
                continue
            if at not in self._owner:
                self._owner[at] = owner
                found += size
            elif self._owner[at] != owner:
                sharer = self._owner[at]
        self.total += found
        return found, sharer


def own(module: Any) -> Iterator[Any]:
    """Parameters and buffers that a module holds itself."""
    for held in (module._parameters, module._buffers):  # noqa: SLF001 - named_parameters(recurse=False) hides duplicates
        yield from (tensor for tensor in held.values() if tensor is not None)


def _storage(tensor: Any) -> tuple[int, int]:
    """Address and bytes of a tensor's storage; address 0 where it has none of its own."""
    if tensor.is_meta:
        return id(tensor), tensor.numel() * tensor.element_size()
    storage = tensor.untyped_storage()
    return storage.data_ptr(), storage.nbytes()
