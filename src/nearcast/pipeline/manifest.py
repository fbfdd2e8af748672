"""What a table consists of, as a value: which files make up a version, which may be replaced, which may be removed.

Nothing here reads or writes anything. A manifest is never changed: every change makes the next one, and whoever holds
an older one goes on seeing what it named.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from nearcast.domain.errors import TableGone

RECORDS = ""
REJECTED = "rejected"
"""The parts of a table: its records, and its side table of what did not fit. Both are committed at once."""


_ALIKE = 16  # times the smallest, at most
_TINY = 128  # so many of the smallest make a file of the wanted size


@dataclass(frozen=True, slots=True)
class DataFile:
    """Written once. Its records came with the versions from `first` to `last`, the newest of them made at `at_s`.

    `base`: of a keyed table, all base files together have at most one record per key.
    """

    path: str  # below the table's folder
    first: int
    last: int
    rows: int
    size_bytes: int
    at_s: float
    part: str = RECORDS
    base: bool = False


@dataclass(frozen=True, slots=True)
class Dropped:
    """A file that is no longer part of the table, and since when."""

    path: str
    at_s: float


@dataclass(frozen=True, slots=True)
class Manifest:
    """The table at its newest version, and as much of what was before as the same files tell.

    Versions begin with 1; 0 is the empty table. `offsets` say of each source how far it has been read. Of records that
    came with versions up to `floor` some may have been removed; of a keyed table, versions before `folded` cannot be
    told apart any more.
    """

    version: int = 0
    files: tuple[DataFile, ...] = ()
    offsets: Mapping[str, str] = field(default_factory=dict)
    dropped: tuple[Dropped, ...] = ()
    folded: int = 0
    floor: int = 0
    at_s: float = 0.0  # when the version was committed

    def rows(self, part: str = RECORDS) -> int:
        return sum(each.rows for each in self.files if each.part == part)

    def size_bytes(self, part: str = RECORDS) -> int:
        return sum(each.size_bytes for each in self.files if each.part == part)

    def files_at(self, version: int, part: str = RECORDS) -> tuple[DataFile, ...]:
        """All that have records of version `version` or before; they may have later ones too.

        Raises TableGone for a version that is not there yet, or no longer.
        """
        self._must_have(version)
        return tuple(each for each in self.files if each.part == part and each.first <= version)

    def added(self, after: int, until: int, part: str = RECORDS) -> tuple[DataFile, ...]:
        """All that have records of the versions after `after` up to `until`; they may have others too."""
        self._must_have(until)
        if after > until:
            raise TableGone(f"the versions after {after} up to {until}: there are none, the first is the later one")
        return tuple(each for each in self.files if each.part == part and each.first <= until and each.last > after)

    def _must_have(self, version: int) -> None:
        if version > self.version:
            raise TableGone(f"version {version} is not there yet; the newest is {self.version}")
        if version < self.folded:
            raise TableGone(f"version {version} is no longer there: it was folded into version {self.folded}")

    # What makes the next manifest

    def committed(self, files: Iterable[DataFile], offsets: Mapping[str, str], at_s: float) -> Manifest:
        """The next version: these files more, and these sources read so far."""
        new, version = tuple(files), self.version + 1
        for each in new:
            if (each.first, each.last) != (version, version):
                raise ValueError(f"{each.path} has versions {each.first} to {each.last}; committed is {version}")
        named = {*self.paths, *(each.path for each in self.dropped)}
        if twice := [each.path for each in new if each.path in named]:
            raise ValueError(f"{', '.join(twice)}: a file that the table has, or had, already")
        return replace(self, version=version, files=(*self.files, *new), offsets={**self.offsets, **offsets}, at_s=at_s)

    def replaced(
        self, old: Collection[str], new: Iterable[DataFile], at_s: float, *, folded: int = 0
    ) -> Manifest | None:
        """The same version from other files. None when one of the old ones is not part of it any more."""
        gone = set(old)
        if not gone <= self.paths:
            return None
        kept = tuple(each for each in self.files if each.path not in gone)
        dropped = tuple(Dropped(path, at_s) for path in sorted(gone))
        return replace(
            self,
            files=(*new, *kept),
            dropped=(*self.dropped, *dropped),
            folded=max(self.folded, folded),
        )

    def without(self, files: Collection[DataFile], at_s: float) -> Manifest | None:
        """Some removed for their age. None when one of them is not part of it any more."""
        found = self.replaced([each.path for each in files], (), at_s)
        if found is None:
            return None
        return replace(found, floor=max([self.floor, *(each.last for each in files if each.part == RECORDS)]))

    def forgetting(self, removed: Collection[str]) -> Manifest:
        """Files that were dropped, and are removed from the disk now."""
        return replace(self, dropped=tuple(each for each in self.dropped if each.path not in removed))

    # What may be done

    @property
    def paths(self) -> set[str]:
        return {each.path for each in self.files}

    def small(self, part: str, target_bytes: int, least: int) -> tuple[DataFile, ...]:
        """Neighbours by version, alike in size, that together make a file of at most `target_bytes`: the longest run.

        Empty when there are fewer than `least`. Base files are left alone. Alike, because what was made of many is not
        to be written again for every few that follow; the smallest count as alike.
        """
        order = sorted((each for each in self.files if each.part == part), key=lambda each: (each.first, each.path))
        best: list[DataFile] = []
        run: list[DataFile] = []
        for each in order:
            if each.base or each.size_bytes >= target_bytes:
                run = []
                continue
            run.append(each)
            while not _together([one.size_bytes for one in run], target_bytes):
                run.pop(0)
            if len(run) > len(best):
                best = list(run)
        return tuple(best) if len(best) >= max(least, 2) else ()

    def foldable(self, least: int, ratio: float) -> tuple[DataFile, ...]:
        """Of a keyed table, all files, once there are `least` deltas with `ratio` of the base's rows or more."""
        records = tuple(each for each in self.files if each.part == RECORDS)
        deltas = [each for each in records if not each.base]
        base_rows = sum(each.rows for each in records if each.base)
        if len(deltas) < max(least, 1) or sum(each.rows for each in deltas) < ratio * base_rows:
            return ()
        return records

    def expired(self, before_s: float, held: int, part: str = RECORDS) -> tuple[DataFile, ...]:
        """Files whose newest record is older than `before_s` and came with version `held` or before."""
        return tuple(
            each
            for each in self.files
            if each.part == part and each.at_s < before_s and each.last <= held and not each.base
        )

    def removable(self, before_s: float, pinned: Collection[str]) -> tuple[str, ...]:
        """Dropped before `before_s`, and nobody reads them."""
        return tuple(each.path for each in self.dropped if each.at_s < before_s and each.path not in pinned)


def _together(sizes: list[int], target_bytes: int) -> bool:
    """Whether one file may be made of these; one alone may always."""
    smallest = max(min(sizes), target_bytes // _TINY)
    return sum(sizes) <= target_bytes and max(sizes) <= _ALIKE * smallest
