"""A second plugin, in every process of a server under test: says what stands on vLLM's attributes, by itself.

It knows nothing of m3probe's own lists: it walks all modules, classes and layers of vLLM and looks for functions whose
code lies in m3probe. Asked by a file ``ask-NAME`` in $M3PROBE_WITNESS, it writes ``NAME-PID.json``.
"""

import gc
import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType, MethodType
from typing import Any

OURS = "m3probe/collectors/"


def register() -> None:
    """Start to listen; again in every forked child."""
    os.register_at_fork(after_in_child=_start)
    _start()


def _start() -> None:
    threading.Thread(target=_listen, daemon=True).start()


def _listen() -> None:
    folder, done = Path(os.environ["M3PROBE_WITNESS"]), set()
    while True:
        time.sleep(0.2)
        for asked in folder.glob("ask-*"):
            if asked.name not in done:
                done.add(asked.name)
                part = folder / f".{asked.name}-{os.getpid()}"
                part.write_text(json.dumps(_testimony()))
                part.rename(folder / f"{asked.name.removeprefix('ask-')}-{os.getpid()}.json")


def _testimony() -> dict[str, Any]:
    """Wrappers of m3probe by place, and the identity of every function of the classes that it may hook."""
    wrapped, objects = {}, {}
    for place, value in _attributes():
        inner = value.__func__ if isinstance(value, staticmethod | classmethod | MethodType) else value
        if isinstance(inner, FunctionType):  # other objects may do anything when they are asked for an attribute
            objects[place] = id(value)
            if OURS in inner.__code__.co_filename:
                wrapped[place] = inner.__qualname__
    return {"wrapped": wrapped, "objects": objects, "threads": sorted(t.name for t in threading.enumerate())}


def _attributes() -> Iterator[tuple[str, Any]]:
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] != "vllm" or module is None:
            continue
        for key, value in list(vars(module).items()):
            yield f"{name}.{key}", value
            if isinstance(value, type) and value.__module__ == name:
                for inner, attribute in list(vars(value).items()):
                    yield f"{name}.{key}.{inner}", attribute
    yield from _of_layers()


def _of_layers() -> Iterator[tuple[str, Any]]:
    """Functions on single objects: layers of the model, its runner, worker and methods of quantisation."""
    torch = sys.modules.get("torch")
    if torch is None:
        return
    frozen = gc.get_freeze_count()
    if frozen:
        gc.unfreeze()  # vLLM freezes its objects, and the collector does not show those
    try:
        for found in gc.get_objects():
            if str(type(found).__module__).startswith("vllm.") and type(found).__dictoffset__:
                for key, value in list(vars(found).items()):
                    if isinstance(value, FunctionType):
                        yield f"{type(found).__module__}.{type(found).__name__}@{id(found)}.{key}", value
    finally:
        if frozen:
            gc.freeze()
