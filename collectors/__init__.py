"""The guest: runs inside a vLLM process, records facts and judges nothing.

A hook never raises into vLLM, never waits for the device, never blocks, undoes itself and counts what it drops.
Standard library and msgspec only at import; ``torch`` and ``vllm`` are met inside functions, where they are loaded already.
"""
