"""Variables that contradict each other or are dangerous, of this process and of each server's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path

from m3probe.doctor.env_rules import RULES, is_on
from m3probe.doctor.place import Place, Subject, alike, who
from m3probe.doctor.versions import PACKAGES, found_in
from m3probe.model.doctor_report import Check, Word
from m3probe.recipe.env_values import refused
from m3probe.recipe.warnings import warned
from m3probe.schema.secrets import environment as told_env
from m3probe.schema.setup import Build, Setup
from m3probe.vllm_source import bundled

_AITER = "VLLM_ROCM_USE_AITER"
_HIP, _CUDA, _ROCR = "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"
_LONGEST = 80  # characters of a value in a sentence
_MOST = 40
"""Rows about one environment: it may hold any number of misspelt names."""


def checks(place: Place) -> Iterator[Check]:
    """Rows by environment: those that are alike are told once."""
    hidden = [subject.name for subject in place.subjects if subject.env is None]
    known = [subject for subject in place.subjects if subject.env is not None]
    for key, names in alike(known, lambda s: (tuple(sorted(_relevant(s.env or {}).items())), _release(s))):
        found = list(islice(_of(place, dict(key[0]), key[1]), _MOST))
        yield from (Check(c.id, c.word, f"{names}: {c.text}", c.advice, c.source) for c in found)
        if not found:
            yield Check("environment.variables", Word.OK, f"{names}: {_counted(key[0])}")
    if hidden:
        text = f"{who(hidden)}: environment not readable (another user's, or it renamed itself and wrote over it)"
        yield Check("environment.variables", Word.UNKNOWN, text, "`m3probe attach` reads it from inside")


def _counted(variables: tuple[tuple[str, str], ...]) -> str:
    if not variables:
        return "no variable of HIP, HSA, ROCR, NCCL, RCCL, vLLM or AITER is set"
    return f"nothing is known against the {len(variables):,} variables that steer a server"


def _relevant(env: Mapping[str, str]) -> dict[str, str]:
    """What steers a server, and what is looked at beside it."""
    beside = {rule.name for rule in RULES} | {"LD_PRELOAD", "ROCP_TOOL_LIBRARIES"}
    return told_env(env) | {name: value for name, value in env.items() if name in beside}


def _release(subject: Subject) -> str:
    found = found_in(subject.sites, PACKAGES["vllm"])
    return found[0][1].partition("+")[0] if found else ""


def _of(place: Place, env: Mapping[str, str], release: str) -> Iterator[Check]:
    yield from _devices(env)
    yield from _dangerous(env)
    yield from _tables(place, env)
    yield from _tools(env)
    yield from _aiter(place, env)
    yield from _vllm(place, env, release)


def _devices(env: Mapping[str, str]) -> Iterator[Check]:
    """The three lists of visible devices."""
    hip, cuda, rocr = (env.get(name, "").strip() for name in (_HIP, _CUDA, _ROCR))
    if hip and cuda and hip != cuda:
        text = f"{_HIP}={_cut(hip)} and {_CUDA}={_cut(cuda)} differ: vLLM on ROCm does not start (ValueError)"
        source = "vLLM 0.32.0, platforms/rocm.py _sync_hip_cuda_env_vars"
        yield Check("environment.visible_devices", Word.BAD, text, "Set one of the two", source)
    inner = hip or cuda
    if not (rocr and inner):
        return
    source = "ROCm documentation, GPU isolation: HIP counts among the devices that ROCR leaves"
    left, asked = len(rocr.split(",")), [word.strip() for word in inner.split(",")]
    beyond = [word for word in asked if word.isdecimal() and int(word[:9]) >= left]
    said = f"{_ROCR}={_cut(rocr)} leaves {left} device(s), and {_HIP if hip else _CUDA}={_cut(inner)}"
    if beyond:
        text = f"{said} asks for number {beyond[0]}, which is not among 0 to {left - 1}"
        yield Check("environment.visible_devices", Word.BAD, text, f"Set {_ROCR} alone", source)
    else:
        text = f"{said} counts among them, not among the devices of the host"
        yield Check("environment.visible_devices", Word.WARN, text, f"Set {_ROCR} alone", source)


def _dangerous(env: Mapping[str, str]) -> Iterator[Check]:
    for rule in RULES:
        value = env.get(rule.name)
        if value is not None and rule.when(value):
            text, advice = f"{rule.name}={_cut(value)}: {rule.text}", rule.advice or f"Unset {rule.name}"
            yield Check(f"environment.{rule.name.lower()}", rule.word, text, advice, rule.source)


def _tables(place: Place, env: Mapping[str, str]) -> Iterator[Check]:
    """Tuned tables that a variable names and nobody finds."""
    for name in sorted(env):
        if not name.startswith("AITER_CONFIG_"):
            continue
        for path in filter(None, (word.strip() for word in env[name].split(":"))):
            if Path(path).is_absolute() and not (place.root / path.lstrip("/")).exists():
                text = f"{name}: {_cut(path)} is not there: AITER runs untuned, or stops"
                yield Check(f"environment.{name.lower()}", Word.BAD, text, "Name a file that the server can read")


def _tools(env: Mapping[str, str]) -> Iterator[Check]:
    """A profiler's tool that is loaded before torch's own."""
    for name in ("LD_PRELOAD", "ROCP_TOOL_LIBRARIES"):
        value = env.get(name, "")
        if "rocprof" in value.lower():
            text = f"{name}={_cut(value)}: one rocprofiler tool a process; torch's profiler gets no kernel where another came first"
            yield Check(
                "environment.second_profiler", Word.WARN, text, "Start the server without it", "Hyperloom PR 153"
            )


def _aiter(place: Place, env: Mapping[str, str]) -> Iterator[Check]:
    if place.amd and not is_on(env.get(_AITER, "")):
        text = (
            f"{_AITER} is off, vLLM's default: 1.7 times slower on short prompts, 3.7 times at 12K tokens in the report"
        )
        yield Check(
            "environment.aiter_off", Word.WARN, text, f"Set {_AITER}=1 where AITER is meant", "vLLM issue 56945"
        )


def _vllm(place: Place, env: Mapping[str, str], release: str) -> Iterator[Check]:
    """What vLLM's own release says: names that nobody reads, values it refuses, switches without their master."""
    build = bundled(release) if release else None
    # the architecture does not hang on a file: gfx9 is all that the rules about variables ask for
    setup = Setup(build=build or Build(), gfx="gfx9" if place.amd else None, env=env)
    source = f"variables of vLLM {release}" if build else ""
    for text in refused(setup, {}):
        yield Check("environment.refused_value", Word.BAD, text, "Set a value that it takes, or unset it", source)
    for line in warned(setup, {}):
        yield Check(f"environment.{line.kind}", Word.WARN, line.text, source=source)
    named = [name for name in env if name.startswith("VLLM_")]
    if named and build is None:
        what = f"vLLM {release} has no bundled rules" if release else "vLLM's release is not known here"
        text = f"{what}: nothing says whether {who(sorted(named))} are its variables"
        yield Check("environment.unchecked", Word.UNKNOWN, text, "m3probe recipe --vllm-path DIR reads a source tree")


def _cut(value: str) -> str:
    return value if len(value) <= _LONGEST else f"{value[:_LONGEST]}..."
