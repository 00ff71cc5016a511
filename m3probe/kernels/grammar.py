"""Kernel name -> family. The grammar is data: ``families.toml`` beside this file, whose head explains it."""

import pkgutil
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from m3probe.kernels.demangle import demangle
from m3probe.schema.verdicts import Family

# Speed, 228 distinct names of the sample traces on one Xeon core, Python 3.11: see the end of this comment block for
# the figures. What made it: words are plain ``str in str`` (40-150 ns each) and only 30 rules have a regex, compiled
# when first reached; 85 compiled patterns alone would cost 25 ms. ``pkgutil.get_data`` because importing
# ``importlib.resources`` costs 9 ms; it reads from a zipped package as well.


@dataclass(frozen=True, slots=True)
class Kind:
    """What a kernel is for. ``names_from_source``: no name of this rule was ever seen in a real trace."""

    family: Family
    category: str
    names_from_source: bool


@dataclass(frozen=True, slots=True)
class Rule:
    """One row of the grammar; the tests are described at the head of ``families.toml``."""

    family: Family
    category: str
    evidence: str
    note: str
    any: tuple[str, ...]
    head: tuple[str, ...]
    starts: tuple[str, ...]
    when: tuple[str, ...]
    op: tuple[str, ...]
    regex: str

    @property
    def kind(self) -> Kind:
        return Kind(self.family, self.category, self.evidence == "source")

    def matches(self, name: str, head: str, op: str = "") -> bool:
        """Whether this rule takes a kernel; all three texts lower-cased."""
        if self.when and not _has(head, self.when):
            return False
        if self.op and not _has(op, self.op):
            return False
        if self.starts and name.startswith(self.starts):
            return True
        if _has(name, self.any) or _has(head, self.head):
            return True
        return bool(self.regex) and _compiled(self.regex).search(head) is not None


UNKNOWN = Kind(Family.UNKNOWN, "unknown", False)


def _has(text: str, words: Iterable[str]) -> bool:
    for word in words:  # a plain loop: any(generator) is 3 x slower here
        if word in text:
            return True
    return False


@lru_cache(maxsize=None)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


@lru_cache(maxsize=1)
def rules() -> tuple[Rule, ...]:
    """The grammar, in order. Source: ``families.toml``, package data."""
    import tomllib  # here: a process that classifies nothing does not pay for it

    data = pkgutil.get_data("m3probe.kernels", "families.toml")
    if data is None:
        raise FileNotFoundError("m3probe/kernels/families.toml is missing from the installed package")
    return tuple(_rule(row) for row in tomllib.loads(data.decode())["rule"])


def _rule(row: dict[str, str]) -> Rule:
    words = {key: tuple(row.pop(key, "").split()) for key in ("any", "head", "starts", "when", "op")}
    family = Family(row.pop("family"))
    texts = {key: row.pop(key, "") for key in ("category", "evidence", "note", "regex")}
    if row:
        raise ValueError(f"families.toml: unknown key {sorted(row)[0]!r} in rule {texts['category']!r}")
    return Rule(family=family, **words, **texts)


# What a launcher wraps is the kernel: cutlass::device_kernel<flash::FlashAttnFwd...>, cutlass::Kernel2<gemm_name>,
# ck_tile::kentry<1, ck_tile::Rmsnorm2dFwd<...>>.
_WRAPPER = r"(?:cutlass::(?:device_)?kernel2?|ck_tile::kentry\w*)<(?:[\d, ]*)(?:flash::enable_\w+<)?([^<>(,]+)"
_RETURN = r"^(?:void |std::enable_if<.*?::type )"


def head_of(name: str) -> str:
    """A kernel's own qualified name: no return type, template arguments or parameters; lower-case in and out."""
    if "<" not in name and "(" not in name:
        return name
    name = name.replace("(anonymous namespace)::", "")
    if name.startswith(("void ", "std::enable_if<")):
        name = _compiled(_RETURN).sub("", name, count=1)
    if name.startswith(("cutlass::", "ck_tile::")) and (inner := _compiled(_WRAPPER).match(name)):
        return inner[1]
    return name.split("<", 1)[0].split("(", 1)[0]


@lru_cache(maxsize=65536)
def classify(name: str, op: str = "") -> Kind:
    """Family of a kernel by its name, first rule wins; ``UNKNOWN`` when none does. Pure, never raises.

    ``op``: the operator that launched it, where the caller knows it. Only names that say nothing by themselves
    (Triton's ``_kernel``) depend on it; without an op they stay unknown rather than guessed.
    """
    readable = demangle(name)
    found = _first(readable.lower(), op.lower())
    if found is None and readable != name:
        found = _first(name.lower(), op.lower())
    return found or UNKNOWN


def _first(name: str, op: str) -> Kind | None:
    head = head_of(name)
    for rule in rules():
        if rule.matches(name, head, op):
            return rule.kind
    return None
