"""The rules of one vLLM build: read from its source by ``ast``, or from the bundled table of exactly that release.

``read_build`` is the door. Rules lie in ``rules/``, one small file per group; tables in ``tables/``, one JSON
file per release, written by ``python -m m3probe.vllm_source.generate DIR VERSION``.
"""

from __future__ import annotations

from m3probe.vllm_source.build import (
    Summary,
    bundled,
    bundled_versions,
    read_build,
    read_tree,
    stated_version,
    summary,
)

__all__ = ["Summary", "bundled", "bundled_versions", "read_build", "read_tree", "stated_version", "summary"]
