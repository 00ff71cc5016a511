"""Real servers, started once for all tests that ask them (and never where vLLM is not installed)."""

from live_starts import injected, pair, tiny_models, tp2

__all__ = ["injected", "pair", "tiny_models", "tp2"]
