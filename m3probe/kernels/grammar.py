"""Kernel name -> family. The grammar is data: ``families.toml`` beside this file, whose head explains it."""

import re
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

from m3probe.kernels.demangle import NAMES_KEPT, demangle
from m3probe.schema.verdicts import Family

# Speed, the 227 names of the sample inference traces, one shared Xeon core, Python 3.11: 23 to 28 ms from this import to
# the last name, on top of standard modules that every report loads (5 this module, 4 tomllib, 5 reading the grammar,
# 3 compiling 25 regexes, 1 to 5 the demangler, 6 the names: 26 us each). One regex per row instead of words took 36 ms
# for the names alone; ``str in str`` is 40 to 150 ns. importlib.resources would add 9 ms for one read.


@dataclass(frozen=True, slots=True)
class Kind:
    """What a kernel is for. ``names_from_source``: no name of this rule was ever seen in a real trace."""

    family: Family
    category: str
    names_from_source: bool


@dataclass(frozen=True, slots=True)
class Rule:
    """One row of the grammar; the tests are described at the head of ``families.toml``."""

    kind: Kind
    evidence: str
    note: str
    any: tuple[str, ...]
    head: tuple[str, ...]
    starts: tuple[str, ...]
    when: tuple[str, ...]
    op: tuple[str, ...]
    regex: str
    whole: str

    @property
    def family(self) -> Family:
        """What the kernels of this rule are for."""
        return self.kind.family

    @property
    def category(self) -> str:
        """The finer, free word: ``comm.quickreduce``."""
        return self.kind.category

    def matches(self, name: str, head: str, op: str = "") -> bool:
        """Whether this rule takes a kernel; all three texts lower-cased."""
        # Plain loops: any(word in text for ...) takes 0.55 us instead of 0.29 for 8 words, and a name meets 24 rules.
        if self.when:
            for word in self.when:
                if word in head:
                    break
            else:
                return False
        if self.op and not [word for word in self.op if word in op]:
            return False
        if self.starts and name.startswith(self.starts):
            return True
        for word in self.head:
            if word in head:
                return True
        for word in self.any:
            if word in name:
                return True
        return self._by_pattern(name, head)

    def _by_pattern(self, name: str, head: str) -> bool:
        found = _compiled(self.regex).search(head) if self.regex else None
        if found is None and self.whole:
            found = _compiled(self.whole).search(name)
        return found is not None


UNKNOWN = Kind(Family.UNKNOWN, "unknown", names_from_source=False)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


@cache
def rules() -> tuple[Rule, ...]:
    """The grammar, in order. Source: ``families.toml``, package data."""
    import tomllib  # here: a process that classifies nothing does not pay for it

    text = Path(__file__).with_name("families.toml").read_text("utf-8")
    return tuple(_rule(row) for row in tomllib.loads(text)["rule"])


def _rule(row: dict[str, str]) -> Rule:
    def words(key: str) -> tuple[str, ...]:
        return tuple(row.pop(key, "").split())

    kind = Kind(Family(row.pop("family")), row.pop("category"), row["evidence"] == "source")
    rule = Rule(
        kind=kind,
        evidence=row.pop("evidence"),
        note=row.pop("note", ""),
        any=words("any"),
        head=words("head"),
        starts=words("starts"),
        when=words("when"),
        op=words("op"),
        regex=row.pop("regex", ""),
        whole=row.pop("whole", ""),
    )
    if row:
        raise ValueError(f"families.toml: unknown key {min(row)!r} in a rule of {kind.category!r}")
    return rule


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


def classify(name: str, op: str = "") -> Kind:
    """Family of a kernel by its name, first rule wins; ``UNKNOWN`` when none does. Pure, never raises.

    ``op``: the operator that launched it, where the caller knows it. Only names that say nothing by themselves
    (Triton's ``_kernel``) depend on it; without an op they stay unknown rather than guessed.
    """
    return _classified(name, op.lower())  # one key, whether the op was left out or given as ""


@lru_cache(maxsize=NAMES_KEPT)
def _classified(name: str, op: str) -> Kind:
    readable = demangle(name)
    found = _first(readable.lower(), op)
    if found is None and readable != name:
        found = _first(name.lower(), op)
    return found or UNKNOWN


def _first(name: str, op: str) -> Kind | None:
    head = head_of(name)
    for rule in rules():
        if rule.matches(name, head, op):
            return rule.kind
    return None
