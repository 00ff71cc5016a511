"""What a server offers over HTTP, what each gave, and which start flag would give more. Nothing here changes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from m3probe.attach.fetch import FORBIDDEN, NOT_FOUND, OK, UNAUTHORIZED, WRONG_METHOD, Client, Reply
from m3probe.attach.metrics import STEPS, Scrape
from m3probe.model.attach_report import Offer
from m3probe.schema.records import Config
from m3probe.schema.secrets import secret

DEV_MODE = "start with VLLM_SERVER_DEV_MODE=1 (trusted networks only: it lets anybody call into the workers)"
PROFILER = """start with --profiler-config '{"profiler": "torch", "torch_profiler_dir": "DIR"}'"""
_NEEDED = {
    STEPS: "start without --disable-log-stats: steps and request timings",
    "vllm:kv_block_lifetime_seconds_count": "--kv-cache-metrics: lifetime and reuse of KV blocks",
    "vllm:estimated_flops_per_gpu_total": "--enable-mfu-metrics: estimated FLOPs and bytes",
}
MOST_DEPTH = 8


class Offers:
    """Looks at one server's addresses.

    Args:
        client: its address.
        scraped: a scrape of /metrics, or why there is none.
    """

    def __init__(self, client: Client, scraped: Scrape | str) -> None:
        self.client, self.scraped = client, scraped
        self.version = ""
        self.configs: list[Config] = []
        """What is worth keeping in a recording."""
        self.profiler: bool | None = None

    def all(self) -> tuple[Offer, ...]:
        """Every address, in the order in which they are told."""
        return (
            self._version(),
            self._models(),
            self._metrics(),
            self._server_info(),
            self._collective_rpc(),
            self._profile(),
        )

    def _version(self) -> Offer:
        reply = self.client.get("/version")
        found = _json(reply)
        self.version = str(found.get("version", "")) if isinstance(found, Mapping) else ""
        if self.version:
            return Offer("/version", "gave", f"vLLM {self.version}")
        return _nothing("/version", reply)

    def _models(self) -> Offer:
        reply = self.client.get("/v1/models")
        found = _json(reply)
        data = found.get("data") if isinstance(found, Mapping) else None
        if not isinstance(data, list):
            return _nothing("/v1/models", reply)
        cards = [card for card in data if isinstance(card, Mapping)]
        said = [f"{card.get('id')} (up to {card.get('max_model_len')} tokens)" for card in cards]
        return Offer("/v1/models", "gave", ", ".join(said) or "no model")

    def _metrics(self) -> Offer:
        if isinstance(self.scraped, str):
            return Offer("/metrics", "failed", self.scraped)
        names = {name for name, _ in self.scraped.values}
        ours = {name for name in names if name.startswith("vllm:")}
        more = "; ".join(flag for name, flag in _NEEDED.items() if name not in names)
        steps = self.scraped.steps
        counted = f", {steps:,} steps so far" if steps >= 0 else ", steps not counted"
        return Offer("/metrics", "gave" if ours else "failed", f"{len(ours)} series of vLLM{counted}", more)

    def _server_info(self) -> Offer:
        reply = self.client.get("/server_info?config_format=json", within_s=20.0)  # 0.33 collects the system's state
        found = _json(reply)
        if not isinstance(found, Mapping):
            return _nothing("/server_info", reply, DEV_MODE)
        config, variables = found.get("vllm_config"), found.get("vllm_env")
        sections = {"vllm_config": hidden(config), "vllm_env": hidden(variables)}
        self.configs.append(Config(sections=sections))
        parts = len(config) if isinstance(config, Mapping) else 0
        count = len(variables) if isinstance(variables, Mapping) else 0
        return Offer("/server_info", "gave", f"the configuration ({parts} sections) and {count} VLLM_* variables")

    def _collective_rpc(self) -> Offer:
        """GET tells whether it is there; the one call made asks each worker for its model's modules, as text.

        Nothing else is called: a result that vLLM cannot encode (``get_kv_cache_spec`` holds torch dtypes) ends the thread
        that sends the engine's outputs, and the server hangs for good (seen on 0.32.0).
        """
        there = self.client.get("/collective_rpc")
        if there.status != WRONG_METHOD:
            return _nothing("/collective_rpc", there, DEV_MODE)
        asked = msgspec.json.encode({"method": "get_model_inspection", "timeout": 10})
        reply = self.client.post("/collective_rpc", asked, within_s=15.0)
        found = _json(reply)
        results = found.get("results") if isinstance(found, Mapping) else None
        if not isinstance(results, list) or not all(isinstance(result, str) for result in results):
            return _nothing("/collective_rpc", reply)
        self.configs.append(Config(sections={"model_inspection": hidden(results)}))
        lines = " and ".join(str(count) for count in sorted({len(result.splitlines()) for result in results}))
        said = f"the modules of the model from {len(results)} workers ({lines} lines)"
        return Offer("/collective_rpc", "gave", said)

    def _profile(self) -> Offer:
        reply = self.client.get("/start_profile")
        self.profiler = reply.status == WRONG_METHOD
        if self.profiler:
            return Offer("/start_profile", "gave", "vLLM's own profiler is configured: --profile-steps N can use it")
        return _nothing("/start_profile", reply, PROFILER)


def hidden(value: Any, depth: int = 0) -> Any:
    """Foreign plain data without keys and beyond no depth: what may be kept of a configuration."""
    if depth > MOST_DEPTH:
        return "..."
    if isinstance(value, Mapping):
        return {
            str(name): "(set)"
            if own and not isinstance(own, bool | int) and secret(str(name))
            else hidden(own, depth + 1)
            for name, own in value.items()
        }
    if isinstance(value, list):
        return [hidden(own, depth + 1) for own in value]
    return value


def _nothing(path: str, reply: Reply, flag: str = "") -> Offer:
    if reply.error:
        return Offer(path, "failed", reply.error)
    if reply.status in {UNAUTHORIZED, FORBIDDEN}:
        return Offer(path, "refused", f"HTTP {reply.status}", "--header 'Authorization: Bearer KEY'")
    if reply.status == NOT_FOUND:
        return Offer(path, "absent", "this server does not offer it", flag)
    return Offer(path, "failed", f"HTTP {reply.status}" if reply.status != OK else "no answer of vLLM's form")


def _json(reply: Reply) -> Any:
    if reply.status != OK or reply.error:
        return None
    try:
        return msgspec.json.decode(reply.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
