"""Wrappers on foreign attributes: never an error through, and the same objects afterwards."""

import inspect
import pickle
import types

import pytest

from m3probe.collectors._patch import Patches, around


class Base:
    """A class of the host."""

    def method(self, value: int) -> int:
        """Host's own words."""
        return value + 1

    @staticmethod
    def fixed(value: int) -> int:
        return value + 2

    @classmethod
    def made(cls, value: int) -> tuple[str, int]:
        return cls.__name__, value


class Derived(Base):
    """Inherits all of it."""


class Slotted:
    """Has no dict."""

    __slots__ = ()

    def method(self, value: int) -> int:
        return value


def counting(patches: Patches, seam: str, seen: list[object]):
    return around(patches, seam, after=lambda _token, result, *_args, **_kwargs: seen.append(result))


@pytest.mark.parametrize("name", ["method", "fixed", "made"])
@pytest.mark.parametrize("owner", [Base, Derived])
def test_the_same_object_stands_there_afterwards(owner: type, name: str) -> None:
    patches, seen = Patches(), []
    own, looked_up = vars(owner).get(name), inspect.getattr_static(owner, name)
    before = getattr(owner(), name)(1)
    assert patches.put("s", owner, name, counting(patches, "s", seen)) is not None
    assert getattr(owner(), name)(1) == before
    assert seen == [before]
    assert patches.undo() == ()
    assert vars(owner).get(name) is own  # an inherited attribute is not the class's own afterwards
    assert inspect.getattr_static(owner, name) is looked_up
    assert patches.standing == []


def test_a_method_inherited_by_two_classes_is_watched_in_one() -> None:
    patches, seen = Patches(), []
    patches.put("s", Derived, "method", counting(patches, "s", seen))
    assert (Base().method(1), Derived().method(5)) == (2, 6)
    assert seen == [6]
    patches.undo()


@pytest.mark.parametrize("name", ["method", "fixed", "made"])
def test_one_object_can_be_watched_alone(name: str) -> None:
    patches, seen = Patches(), []
    watched, other = Base(), Base()
    expected = getattr(other, name)(1)
    patches.put("s", watched, name, counting(patches, "s", seen))
    assert (getattr(watched, name)(1), getattr(other, name)(1)) == (expected, expected)
    assert seen == [expected]
    patches.undo()
    assert vars(watched) == {}


def test_an_attribute_of_the_object_itself_is_given_back() -> None:
    patches, seen = Patches(), []
    host = types.SimpleNamespace(forward=lambda value: value * 2)
    own = host.forward
    patches.put("s", host, "forward", counting(patches, "s", seen))
    assert (host.forward(4), seen) == (8, [8])
    patches.undo()
    assert host.forward is own


def test_a_copy_that_another_module_made_of_the_wrapper_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """``from X import f`` while the wrapper stands: the importing module has it under its own name."""
    source, importer = types.ModuleType("host_source"), types.ModuleType("host_importer")
    source.f = lambda: 5
    own = source.f
    monkeypatch.setitem(__import__("sys").modules, "host_importer", importer)
    patches = Patches()
    patches.put("s", source, "f", counting(patches, "s", []), copies=("host_importer:f",))
    importer.f = source.f
    assert patches.undo() == ()
    assert source.f is own
    assert importer.f is own


@pytest.mark.parametrize(
    ("owner", "name"), [(Slotted(), "method"), (dict, "get"), (Base, "__doc__"), (Base, "nothing"), (3, "real")]
)
def test_what_cannot_be_wrapped_is_left_alone(owner: object, name: str) -> None:
    patches = Patches()
    assert patches.put("s", owner, name, counting(patches, "s", [])) is None
    assert patches.standing == []


def failing(*_args: object, **_kwargs: object) -> None:
    raise ZeroDivisionError("planted")


def test_an_error_of_a_hook_is_counted_and_never_raised() -> None:
    patches = Patches()
    patches.put("both", Base, "method", around(patches, "both", before=failing, after=failing))
    assert [Base().method(n) for n in range(3)] == [1, 2, 3]
    patches.undo()
    assert patches.failed == {"both": 6}
    assert patches.said == {"both": "ZeroDivisionError: planted"}


def test_an_error_of_the_host_comes_through_as_it_is() -> None:
    patches, seen = Patches(), []
    patches.put("s", Base, "method", counting(patches, "s", seen))
    with pytest.raises(TypeError, match="can only concatenate str"):
        Base().method("a")
    patches.undo()
    assert (seen, patches.failed) == ([], {})


def test_an_order_to_end_the_process_is_not_swallowed() -> None:
    """vLLM's worker ends by SystemExit from its signal handler, which may run inside a hook."""

    def ending(*_args: object) -> None:
        raise SystemExit(3)

    patches = Patches()
    patches.put("s", Base, "method", around(patches, "s", before=ending))
    with pytest.raises(SystemExit):
        Base().method(1)
    patches.undo()


def test_where_somebody_patched_over_us_it_is_told_and_our_wrapper_does_nothing_more() -> None:
    patches, seen, own = Patches(), [], Base.method
    patches.put("s", Base, "method", counting(patches, "s", seen))
    ours = Base.method
    Base.method = lambda self, value: ours(self, value) * 10
    try:
        assert patches.undo() == ("Base.method",)
        assert Base().method(1) == 20
        assert seen == []
    finally:
        Base.method = own


def test_a_reference_taken_while_recording_does_nothing_more() -> None:
    patches, seen = Patches(), []
    patches.put("s", Base, "method", counting(patches, "s", seen))
    kept = Base().method
    patches.undo()
    patches.put("s", Base, "method", counting(patches, "s", seen))  # the next recording does not wake it up
    assert (kept(1), seen) == (2, [])
    patches.undo()


@pytest.mark.parametrize("order", [("a", "b", "c"), ("c", "b", "a"), ("b", "a", "c"), ("b", "c", "a")])
def test_several_of_our_own_come_off_in_any_order(order: tuple[str, ...]) -> None:
    patches, own = Patches(), vars(Base)["method"]
    seen: dict[str, list[object]] = {name: [] for name in "abc"}
    for name in "abc":
        patches.put(name, Base, "method", counting(patches, name, seen[name]))
    for count, gone in enumerate(order):
        assert Base().method(count) == count + 1
        assert patches.undo(lambda patch, gone=gone: patch.seam == gone) == ()
    assert vars(Base)["method"] is own
    assert {name: len(found) for name, found in seen.items()} == {name: order.index(name) + 1 for name in "abc"}


def test_a_wrapper_reads_like_what_it_wraps() -> None:
    patches = Patches()
    plain = inspect.signature(Base.method), Base.method.__doc__, inspect.getsource(Base.method), Base.method.__module__
    patches.put("s", Base, "method", counting(patches, "s", []))
    wrapped = (
        inspect.signature(Base.method),
        Base.method.__doc__,
        inspect.getsource(Base.method),
        Base.method.__module__,
    )
    pickled = pickle.loads(pickle.dumps(Base.method))
    assert pickled is Base.method
    patches.undo()
    assert wrapped == plain


def test_in_a_forked_child_hooks_of_the_recording_come_off_and_those_of_start_up_stay() -> None:
    patches, seen = Patches(), []
    own = vars(Base)["fixed"]
    patches.put("start", Base, "method", counting(patches, "start", seen))
    patches.put("steps", Base, "fixed", counting(patches, "steps", seen))
    patches.lock.acquire()  # as another thread would hold it while the process forks
    patches.failed["steps"] = 4
    patches.forked(lambda patch: patch.seam == "start")
    assert vars(Base)["fixed"] is own
    assert (Base().method(1), seen, patches.failed) == (2, [2], {})
    patches.undo()
