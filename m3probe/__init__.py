"""m3probe: evidence about where a vLLM server's time goes, and whether its fast paths ran."""

__version__ = "0.1.0.dev0"
