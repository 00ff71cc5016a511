"""Profiler libraries: those that servers have mapped, else those that a server started here would find."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from m3probe.attach.rocm import ProfilerBuild, build_of, read_profiling
from m3probe.attach.rocm_builds import Effect
from m3probe.doctor.place import HERE, Place
from m3probe.model.doctor_report import Check, Word

_FOLDERS = ("opt/rocm*/lib", "opt/rocm*/lib64")
_MOST_FILES = 20_000
NAME = "profiler.libraries"


def checks(place: Place) -> Iterator[Check]:
    """What is known of each build that is mapped, or lies where it would be mapped from."""
    looked = [
        (subject.name, read_profiling(subject.pid, place.proc, subject.env))
        for subject in place.subjects
        if isinstance(subject.pid, int)
    ]
    if not looked:
        own = place.subjects[0]
        looked.append((f"on disk, for {HERE}", build_of(_on_disk(place, own.sites), place.root, own.env or {})))
    told: dict[tuple[str, Word, str, str], list[str]] = {}
    for name, build in looked:
        for row in _rows(place, build):
            told.setdefault(row, []).append(name)
    for (text, word, advice, source), names in told.items():
        first = f"{names[0]}{f' and {len(names) - 1:,} more' if len(names) > 1 else ''}"
        yield Check(NAME, word, f"{first}: {text}", advice, source)


def _on_disk(place: Place, sites: tuple[Path, ...]) -> Iterator[str]:
    """Libraries in the order in which a process finds them: torch's own copies win by RPATH. Links are left out."""
    folders = [site / "torch" / "lib" for site in sites]
    folders += [folder for pattern in _FOLDERS for folder in sorted(place.root.glob(pattern))]
    seen = set()
    for folder in folders:
        try:
            files = sorted(path for _, path in zip(range(_MOST_FILES), folder.glob("*.so*"), strict=False))
        except OSError:
            continue
        for path in files:
            real = path.resolve()
            if real.is_file() and real not in seen and real.is_relative_to(place.root.resolve()):
                seen.add(real)
                yield f"/{real.relative_to(place.root.resolve())}"


def _rows(place: Place, build: ProfilerBuild) -> Iterator[tuple[str, Word, str, str]]:
    if not build.readable:
        text = "its mapped libraries cannot be read"
        yield text, Word.UNKNOWN, "Run doctor as the server's user, in its container", ""
        return
    for known in build.known:
        report = known.report
        hangs = report.effect is Effect.HANGS
        text = f"{known.library.text} {report.effect}: {report.text}"
        advice = report.advice or ("A window is refused without --force-profiler" if hangs else "")
        yield text, Word.BAD if hangs else Word.WARN, advice, report.source
    if build.known:
        return
    if build.libs:
        said = ", ".join(dict.fromkeys(lib.text for lib in build.libs))
        yield f"nothing is known against {said}", Word.OK, "", ""
    elif place.amd is False:
        yield "no library that a report is about, and no AMD GPU", Word.OK, "", ""
    elif build.pid >= 0:
        yield "no library is mapped that a report is about", Word.OK, "", ""
    else:
        text = "no library of ROCm's or CUDA's profilers was found: what they would lose is not known"
        yield text, Word.UNKNOWN, "Look again while the server runs: its workers have them mapped", ""
