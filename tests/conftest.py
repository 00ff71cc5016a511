"""Real servers, started once for all tests that ask them (and never where vLLM is not installed)."""

import os

import pytest
from live_load import loaded
from live_starts import injected, pair, tiny_models, tp2

__all__ = ["injected", "loaded", "pair", "tiny_models", "tp2"]

# Commands that tests run would take a workflow's step for their own, and write into its log and summary.
os.environ.pop("GITHUB_ACTIONS", None)


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Workers of ``-n auto``: for the whole suite as many as cores, 2 to 8; none where files or tests are named.

    Not more than cores: some tests hold answers to a time. A worker collects all 9,000 tests for itself (11 s), which one
    test is not worth, and named live tests share their servers. Beyond 8 the longest file decides.
    """
    if config.args_source is not config.ArgsSource.TESTPATHS:
        return 0
    return min(8, max(2, len(os.sched_getaffinity(0))))
