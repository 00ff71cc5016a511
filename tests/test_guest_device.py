"""What a worker's process says of the device it runs on."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from m3probe.collectors import _process


@pytest.mark.parametrize(
    ("name", "arch", "gfx"),
    [
        ("AMD Instinct MI355X", "gfx950:sramecc+:xnack-", "gfx950"),
        ("NVIDIA H200", "NVIDIA H200", ""),
        ("NVIDIA A2", "", ""),
    ],
)
def test_only_an_architecture_is_one(name: str, arch: str, gfx: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """torch 2.11 for CUDA has ``gcnArchName`` too, with the device's name in it (seen on an H200)."""
    properties = SimpleNamespace(name=name, gcnArchName=arch)
    torch = SimpleNamespace(cuda=SimpleNamespace(get_device_properties=lambda _device: properties))
    monkeypatch.setitem(sys.modules, "torch", torch)
    found = _process._device(SimpleNamespace(device=SimpleNamespace(type="cuda")))
    assert (found.kind, found.name, found.gfx) == ("cuda", name, gfx)
