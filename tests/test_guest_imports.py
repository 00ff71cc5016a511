"""The import watch: told when a module has run, and invisible to everything else that looks at modules."""

import importlib
import importlib.resources
import importlib.util
import inspect
import pickle
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from m3probe.collectors._imports import Watch

SOURCE = '''
"""A module of the host."""
VALUE = 1
class Thing:
    """With source."""
def function():
    return VALUE
'''


@pytest.fixture
def watch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watch]:
    for name in ("watched_a", "watched_b", "watched_pkg/__init__", "watched_pkg/inner", "watched_space/part"):
        path = tmp_path / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(SOURCE)
    (tmp_path / "watched_pkg/data.txt").write_text("kept")
    (tmp_path / "watched_broken.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(str(tmp_path))
    finders = list(sys.meta_path)
    made = Watch()
    yield made
    made.remove()
    assert sys.meta_path == finders
    for name in [name for name in sys.modules if name.startswith("watched_")]:
        del sys.modules[name]


def test_it_is_told_once_when_the_module_has_run(watch: Watch) -> None:
    seen: list[int] = []
    watch.when("watched_a", lambda module: seen.append(module.VALUE))
    assert seen == []
    module = importlib.import_module("watched_a")
    importlib.reload(module)
    assert seen == [1]


def test_a_module_that_is_there_is_told_at_once(watch: Watch) -> None:
    importlib.import_module("watched_b")
    seen: list[ModuleType] = []
    watch.when("watched_b", seen.append)
    assert seen == [sys.modules["watched_b"]]
    assert watch not in sys.meta_path


def test_an_error_of_ours_never_reaches_the_import(watch: Watch) -> None:
    failed: list[tuple[str, str]] = []
    seen: list[ModuleType] = []
    watch._failed = lambda module, error: failed.append((module, str(error)))
    watch.when("watched_a", lambda _module: 1 / 0)
    watch.when("watched_a", seen.append)
    assert importlib.import_module("watched_a").VALUE == 1
    assert failed == [("watched_a", "division by zero")]
    assert seen == [sys.modules["watched_a"]]


def test_an_error_of_the_module_is_the_one_it_has_without_the_watch(watch: Watch) -> None:
    seen: list[ModuleType] = []
    watch.when("watched_broken", seen.append)
    watch.when("watched_missing", seen.append)
    with pytest.raises(ZeroDivisionError):
        importlib.import_module("watched_broken")
    with pytest.raises(ModuleNotFoundError, match="watched_missing"):
        importlib.import_module("watched_missing")
    assert (seen, "watched_broken" in sys.modules) == ([], False)


def test_the_module_looks_as_if_nobody_had_watched(watch: Watch) -> None:
    watch.when("watched_a", lambda _module: None)
    watched, plain = importlib.import_module("watched_a"), importlib.import_module("watched_b")
    assert watched.__spec__ is not None
    assert plain.__spec__ is not None
    assert type(watched.__loader__) is type(plain.__loader__)
    assert watched.__spec__.loader is watched.__loader__
    assert sorted(vars(watched)) == sorted(vars(plain))
    assert inspect.getsource(watched.function) == inspect.getsource(plain.function)
    assert pickle.loads(pickle.dumps(watched.Thing())).__class__ is watched.Thing


def test_a_package_keeps_its_path_its_resources_and_its_submodules(watch: Watch) -> None:
    seen: list[str] = []
    for name in ("watched_pkg", "watched_pkg.inner"):
        watch.when(name, lambda module: seen.append(module.__name__))
    inner = importlib.import_module("watched_pkg.inner")
    package = sys.modules["watched_pkg"]
    assert seen == ["watched_pkg", "watched_pkg.inner"]
    assert inner.__package__ == "watched_pkg"
    assert len(package.__path__) == 1
    assert importlib.resources.files("watched_pkg").joinpath("data.txt").read_text() == "kept"


def test_a_namespace_package_is_one_still(watch: Watch) -> None:
    seen: list[str] = []
    for name in ("watched_space", "watched_space.part"):
        watch.when(name, lambda module: seen.append(module.__name__))
    importlib.import_module("watched_space.part")
    assert sys.modules["watched_space"].__file__ is None
    assert seen[-1] == "watched_space.part"


def test_looking_for_a_module_does_not_load_it_and_its_source_can_be_read(watch: Watch) -> None:
    seen: list[ModuleType] = []
    watch.when("watched_a", seen.append)
    spec = importlib.util.find_spec("watched_a")
    assert spec is not None
    assert spec.loader is not None
    assert spec.loader.get_source("watched_a") == SOURCE  # type: ignore[attr-defined]
    assert (seen, "watched_a" in sys.modules) == ([], False)
    importlib.import_module("watched_a")
    assert len(seen) == 1


def test_a_lazy_loader_around_it_stays_lazy(watch: Watch) -> None:
    seen: list[int] = []
    watch.when("watched_a", lambda module: seen.append(module.VALUE))
    spec = importlib.util.find_spec("watched_a")
    assert spec is not None
    assert spec.loader is not None
    spec.loader = importlib.util.LazyLoader(spec.loader)
    module = importlib.util.module_from_spec(spec)
    sys.modules["watched_a"] = module
    spec.loader.exec_module(module)
    assert seen == []
    assert module.VALUE == 1
    assert seen == [1]


def test_threads_that_import_meanwhile_miss_no_finder(watch: Watch) -> None:
    """The list of finders is replaced, never shifted under a thread that walks through it."""
    failed: list[BaseException] = []
    stop = threading.Event()

    def importing() -> None:
        while not stop.is_set():
            try:
                importlib.util.find_spec("watched_b")
                if importlib.util.find_spec("watched_b") is None:
                    failed.append(ModuleNotFoundError())
            except BaseException as error:  # noqa: BLE001 - any is the failure that is looked for
                failed.append(error)

    threads = [threading.Thread(target=importing) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(300):
        watch.when("watched_missing", lambda _module: None)
        watch.remove()
    stop.set()
    for thread in threads:
        thread.join()
    assert failed == []
