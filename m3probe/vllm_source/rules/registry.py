"""The environment variables that vLLM itself knows."""

from __future__ import annotations

from m3probe.vllm_source.look import Moved
from m3probe.vllm_source.rules._env import FILE, registered
from m3probe.vllm_source.tree import Found, Tree


def env_registry(tree: Tree) -> Found:
    """Every VLLM_* name; others in the same table (CUDA_HOME, NO_COLOR) belong to other programs too."""
    names = sorted(name for name in registered(tree) if name.startswith("VLLM_"))
    if not names:
        raise Moved(f"{FILE}: no VLLM_* name")
    source = tree.source(FILE)
    return source.found(source.bound("environment_variables"), names)


READERS = {"env_registry": env_registry}
