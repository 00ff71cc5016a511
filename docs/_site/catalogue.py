"""Pages of the catalogue: one for each fast path, one with all gates. All of it is read from the plugs."""

from __future__ import annotations

from collections.abc import Mapping

from words import bullets, code, codes, page, plain, table, toctree

from m3probe.fastpaths._published import Published, published
from m3probe.rules.file import FAST_PATHS, GATES
from m3probe.schema.gates import Gate
from m3probe.schema.paths import FastPath, Need, Role, Variant


def pages() -> dict[str, str]:
    """Markdown by file name of the site."""
    paths, gates = dict(FAST_PATHS.plugs()), dict(GATES.plugs())
    made = {f"catalogue/{name}.md": _path(name, path, gates) for name, path in paths.items()}
    made["catalogue/index.md"] = _index(paths)
    made["catalogue/gates.md"] = _gates(gates, paths)
    return made


def _index(paths: Mapping[str, FastPath]) -> str:
    rows = [[f"[{plain(path.title)}]({name}.md)", code(name), plain(path.question)] for name, path in paths.items()]
    return page(
        "# Fast paths and gates",
        "Made from the plugs of this release (`m3probe/fastpaths/`, `m3probe/gates/`): what asks for a path, what it "
        "needs, which kernels prove it. `m3probe recipe --explain PATH` prints the same entry. How a verdict comes "
        "about is told in [fast paths](../paths.md), how a gate is judged in [gates](../gates.md).",
        table(["path", "name", "question"], rows),
        toctree([*paths, "gates"]),
    )


def _path(name: str, path: FastPath, gates: Mapping[str, Gate]) -> str:
    asked = [f"asked for by: {plain(path.configured)}", f"by default: {plain(path.default)}"]
    return page(
        f"# {plain(path.title)}",
        f"{code(name)}: {plain(path.question)}",
        bullets([*asked, *_nature(path)]),
        "## What it needs" if path.needs else "",
        _needs(path.needs),
        "## Kernels that prove it",
        *(_variant(variant) for variant in path.variants),
        "## When it is refused or off" if path.instead else "",
        plain(path.instead),
        "## Before it is correct" if path.gates else "",
        bullets(f"[{code(gate)}](gates.md#{gate}): {plain(gates[gate].title)}" for gate in path.gates),
        _effects(name, path),
        "## Log lines" if path.logs else "",
        "They tell what was selected, never what ran." if path.logs else "",
        bullets(plain(line) for line in path.logs),
        "## Functions" if path.functions else "",
        bullets(code(function) for function in path.functions),
        "## Read in" if path.sources else "",
        bullets(plain(source) for source in path.sources),
    )


def _nature(path: FastPath) -> list[str]:
    acts = codes(path.acts_on or ((path.family,) if path.family else ()))
    return [
        f"phases: {', '.join(path.phases)}" + (f"; decided by {', '.join(path.decided_by)}" if path.decided_by else ""),
        f"one call is counted by: {plain(path.counted_by.replace('_', ' '))}",
        f"can change the time of: {acts}" if acts else "",
        "changes how steps are launched: idle time is its matter too" if path.launches else "",
        f"changes the model's work ({plain(path.other_work)}): no speed-up under one contract"
        if path.other_work
        else "",
        "stands in MiniMax M3's model files only" if path.only_m3 else "",
        "asks which implementation ran: each of them is an answer" if path.chooses else "",
        f"a launch must look so: {plain(path.launch.claim)}" if path.launch else "",
    ]


def _needs(needs: tuple[Need, ...]) -> str:
    if not needs:
        return ""
    rows = [
        [plain(need.text), need.when, "recipe" if need.check else "a run only", codes(need.rules) or "—"]
        for need in needs
    ]
    return table(["condition", "asked at", "told by", "rules of vLLM's source"], rows)


def _variant(variant: Variant) -> str:
    said = {
        "one call": codes(variant.anchors) or "no kernel of its own",
        "its other kernels": codes(variant.also),
        "counts beside": codes(variant.beside),
        "layers without it": codes(variant.layers),
        "calls in a step": plain(variant.calls_per_step),
        "vendor": variant.vendor.upper() if variant.vendor == "amd" else variant.vendor.capitalize(),
        "vLLM": plain(variant.vllm),
        "names": "read in source, in no real trace yet: no match proves nothing"
        if variant.names_from_source
        else "seen in real traces",
        "read in": plain(variant.source),
        "note": plain(variant.note),
    }
    kind = "fast" if variant.role is Role.FAST else "fallback"
    return page(
        f"### {plain(variant.name)} ({kind})",
        bullets(f"{word}: {text}" for word, text in said.items() if text),
        _needs(variant.needs),
    ).rstrip()


def _effects(name: str, path: FastPath) -> str:
    rows = published().get(name, ())
    if not path.effects and not rows:
        return ""
    return page(
        "## Measured effect",
        bullets(f"{plain(effect.text)} ({plain(effect.source)})" for effect in path.effects),
        table(["metric", "share of its time that was won", "measured at", "source"], map(_measured, rows))
        if rows
        else "",
    ).rstrip()


def _measured(effect: Published) -> list[str]:
    low, high = (f"{100 * share:.1f} %" for share in (effect.low, effect.high))
    won = high if low == high else f"{low} to {high}"
    return [plain(effect.metric.replace("_", " ")), won, plain(effect.where()), plain(effect.source)]


def _gates(gates: Mapping[str, Gate], paths: Mapping[str, FastPath]) -> str:
    return page(
        "# Gates",
        "A path that executed is `correct` only where its gates hold. A gate that lacks a fact is `unproven`. "
        "[How they are judged](../gates.md).",
        *(
            _gate(name, gate, [path for path, plug in paths.items() if name in plug.gates])
            for name, gate in gates.items()
        ),
    )


def _gate(name: str, gate: Gate, users: list[str]) -> str:
    asked_by = ", ".join(f"[{code(user)}]({user}.md)" for user in users)
    return page(
        f"## {name}",
        f"{plain(gate.title)}. {plain(gate.question)}",
        bullets(
            [
                f"facts: {plain(gate.facts)}",
                f"caught once: {plain(gate.trap)}" if gate.trap else "",
                f"asked for by: {asked_by}" if asked_by else "asked for by no path of its own",
            ]
        ),
    ).rstrip()
