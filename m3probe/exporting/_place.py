"""Where an export goes: written beside its place under another name and renamed when it is whole."""

from __future__ import annotations

import json
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from m3probe.errors import UnwrittenResult, UsageError

MANIFEST = "manifest.json"
MADE_BY = "m3probe export"
"""``made_by`` of a manifest: a folder with it was written by us and may be replaced."""


@dataclass(frozen=True, slots=True)
class Place:
    """The target of one export.

    Args:
        folder: it is a folder of files.
        force: what stands there may be replaced: a file, or a folder that an export made.
        inputs: what is read, which no export may replace.
    """

    target: Path
    folder: bool
    force: bool
    inputs: tuple[Path, ...] = ()

    def check(self) -> None:
        """Whether it can be written there.

        Raises:
            UsageError: something stands there that may not be replaced, or its folder does not exist.
        """
        where = str(self.target)
        if self.target.name in {"", ".."}:
            raise UsageError("that names no new file or folder", where=where, next_move="Give another --out")
        if not self.target.absolute().parent.is_dir():
            raise UsageError("its folder does not exist", where=where, next_move="Make it first, or give another --out")
        try:
            mode = self.target.lstat().st_mode
        except FileNotFoundError:
            return
        except OSError as error:
            raise UsageError(f"cannot be written ({error.strerror})", where=where, next_move="Name it anew") from error
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            what = "it is a link, pipe or device: an export is written beside its place and renamed when it is whole"
            raise UsageError(what, where=where, next_move="Give the name of a new file with --out")
        if stat.S_ISDIR(mode) is not self.folder:
            what = f"a {'file' if self.folder else 'folder'} stands there, and this export is a"
            raise UsageError(f"{what} {'folder' if self.folder else 'file'}", where=where, next_move="Name it anew")
        if not self.force:
            raise UsageError("it exists already", where=where, next_move="Give another --out, or --force to replace it")
        self._replaceable()

    def outside(self) -> None:
        """Whether it lies in none of the folders that are read.

        Raises:
            UsageError: it does, and would be read with the recording that it was made of.
        """
        real = self.target.resolve()
        for path in self.inputs:
            if path.is_dir() and real.is_relative_to(path.resolve()):
                what = (
                    f"lies in the input folder {path}, where it would be read as a second recording of the same kernels"
                )
                raise UsageError(what, where=str(self.target), next_move="Give --out another folder")

    def _replaceable(self) -> None:
        where, real = str(self.target), self.target.resolve()
        if any(path.resolve() == real or real in path.resolve().parents for path in self.inputs):
            raise UsageError("--force would replace an input", where=where, next_move="Give another --out")
        if self.folder and not _made_by_us(self.target):
            what = "it is a folder that no export made, and --force replaces only those"
            raise UsageError(what, where=where, next_move="Give another --out, or remove it yourself")

    @contextmanager
    def fresh(self) -> Iterator[Path]:
        """A new file or folder beside the target, which takes its place when the block ends well.

        Raises:
            UnwrittenResult: the disk is full, or the place cannot be written.
        """
        try:
            beside = Path(tempfile.mkdtemp(prefix=".m3probe-export-", dir=self.target.absolute().parent))
        except OSError as error:
            raise self._unwritten(error) from error
        part = beside / "part"
        try:
            if self.folder:
                part.mkdir()
            yield part
            self.check()  # what appeared meanwhile is not ours to replace
            _swap(part, self.target, beside / "old")
        except OSError as error:
            raise self._unwritten(error) from error
        finally:
            shutil.rmtree(beside, ignore_errors=True)

    def _unwritten(self, error: OSError) -> UnwrittenResult:
        why = error.strerror or str(error)
        move = "Nothing of it is left there; make room, or give another --out"
        return UnwrittenResult(f"cannot be written ({why})", where=str(self.target), next_move=move)


def _swap(part: Path, target: Path, aside: Path) -> None:
    """Rename; an old folder steps aside first, as no rename replaces one that holds anything."""
    if not target.is_dir():
        part.replace(target)
        return
    target.rename(aside)
    try:
        part.rename(target)
    except OSError:
        aside.rename(target)
        raise


def _made_by_us(folder: Path) -> bool:
    try:
        said = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(said, dict) and said.get("made_by") == MADE_BY
