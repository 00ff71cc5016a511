"""Real servers, started once for all tests that ask them (and never where vLLM is not installed)."""

import os

from live_load import loaded
from live_starts import injected, pair, tiny_models, tp2

__all__ = ["injected", "loaded", "pair", "tiny_models", "tp2"]

# Commands that tests run would take a workflow's step for their own, and write into its log and summary.
os.environ.pop("GITHUB_ACTIONS", None)
