"""Tables as values: whatever is committed, compacted, folded, expired and removed, in any order, beside readers.

A file here holds its records, (version, key) pairs, so that what a reader finds can be compared with what was written.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nearcast.pipeline.manifest import DataFile, Manifest

Records = tuple[tuple[int, int], ...]  # of (version, key)


class World:
    """A table's history: what was committed, the disk, and readers that hold an older manifest."""

    def __init__(self, keyed: bool) -> None:
        self.keyed = keyed
        self.manifest = Manifest()
        self.disk: dict[str, Records] = {}
        self.committed: dict[int, tuple[int, ...]] = {}  # keys by version
        self.pinned: list[Manifest] = []
        self.now_s = 0.0
        self.count = 0

    def write(self, records: Records, first: int, last: int, base: bool = False) -> DataFile:
        self.count += 1
        path = f"data/{self.count}"
        self.disk[path] = records
        return DataFile(path, first, last, len(records), max(1, len(records)), self.now_s, base=base)

    def commit(self, keys: tuple[int, ...]) -> None:
        version = self.manifest.version + 1
        records = tuple((version, key) for key in keys)
        files = [self.write(records[:1], version, version), self.write(records[1:], version, version)]
        self.manifest = self.manifest.committed([each for each in files if each.rows], {"s": str(version)}, self.now_s)
        self.committed[version] = keys

    def compact(self, least: int) -> None:
        old = self.manifest.small("", 6, least)
        self.replace(old, self.records(old), base=False)

    def fold(self) -> None:
        old = self.manifest.foldable(1, 0.0) if self.keyed else ()
        newest = {key: version for version, key in sorted(self.records(old))}
        self.replace(old, tuple((version, key) for key, version in newest.items()), base=True)

    def replace(self, old: tuple[DataFile, ...], records: Records, *, base: bool) -> None:
        if not old:
            return
        first, last = min(each.first for each in old), max(each.last for each in old)
        new = self.write(records, first, last, base)
        changed = self.manifest.replaced([each.path for each in old], [new], self.now_s, folded=last if base else 0)
        assert changed is not None
        assert changed.replaced([old[0].path], (), self.now_s) is None, "what is gone cannot be replaced again"
        self.manifest = changed

    def expire(self, age_s: float, held: int) -> None:
        changed = self.manifest.without(self.manifest.expired(self.now_s - age_s, held), self.now_s)
        assert changed is not None
        self.manifest = changed

    def clean(self) -> None:
        pins = {path for each in self.pinned for path in each.paths}
        gone = self.manifest.removable(self.now_s, pins)
        for path in gone:
            del self.disk[path]
        self.manifest = self.manifest.forgetting(gone)

    def records(self, files: tuple[DataFile, ...]) -> Records:
        return tuple(record for each in files for record in self.disk[each.path])

    def must_be_right(self, manifest: Manifest) -> None:
        """What a reader of this manifest finds at every version that it has."""
        for version in range(manifest.folded, manifest.version + 1):
            found = [each for each in self.records(manifest.files_at(version)) if each[0] <= version]
            wanted = [(at, key) for at in range(1, version + 1) for key in self.committed[at]]
            if self.keyed:
                assert _latest(found, manifest.floor) == _latest(wanted, manifest.floor)
            else:
                assert sorted(found, key=str) == sorted(set(found), key=str), "none twice"
                above = [each for each in found if each[0] > manifest.floor]
                assert sorted(above) == [each for each in sorted(wanted) if each[0] > manifest.floor]
                for after in range(manifest.floor, version + 1):
                    new = {each for each in self.records(manifest.added(after, version)) if after < each[0] <= version}
                    assert new == {each for each in wanted if each[0] > after}


def _latest(records: list[tuple[int, int]], floor: int) -> dict[int, int]:
    newest = {key: version for version, key in sorted(records)}
    return {key: version for key, version in newest.items() if version > floor}


keys = st.lists(st.integers(0, 5), min_size=0, max_size=4, unique=True).map(tuple)
actions = st.one_of(
    st.tuples(st.just("commit"), keys),
    st.tuples(st.just("compact"), st.integers(2, 4)),
    st.tuples(st.just("fold"), st.none()),
    st.tuples(st.just("expire"), st.tuples(st.integers(0, 4), st.integers(0, 20))),
    st.tuples(st.just("clean"), st.none()),
    st.tuples(st.just("pin"), st.none()),
    st.tuples(st.just("unpin"), st.integers(0, 3)),
)


@given(keyed=st.booleans(), script=st.lists(actions, max_size=40))
def test_readers_find_what_was_committed_whatever_happened_to_the_files(
    keyed: bool, script: list[tuple[str, object]]
) -> None:
    world = World(keyed)
    for action, value in script:
        world.now_s += 1.0
        match action, value:
            case "commit", tuple():
                world.commit(value)
            case "compact", int():
                world.compact(value)
            case "fold", _:
                world.fold()
            case "expire", (int() as age_s, int() as held) if not keyed:
                world.expire(age_s, held)
            case "clean", _:
                world.clean()
            case "pin", _:
                world.pinned.append(world.manifest)
            case "unpin", int() if world.pinned:
                world.pinned.pop(value % len(world.pinned))
            case _:
                pass
        for manifest in (world.manifest, *world.pinned):
            world.must_be_right(manifest)
        assert world.manifest.paths <= set(world.disk), "nothing that is named is removed"


@given(script=st.lists(keys, min_size=1, max_size=12), held=st.integers(0, 12))
def test_what_somebody_has_yet_to_read_does_not_expire(script: list[tuple[int, ...]], held: int) -> None:
    world = World(keyed=False)
    for each in script:
        world.commit(each)
    world.now_s += 100.0
    world.expire(1.0, held)
    assert world.manifest.floor <= held
    world.must_be_right(world.manifest)


@given(st.lists(st.integers(1, 10), max_size=20), st.integers(2, 5), st.integers(4, 30))
def test_compaction_takes_neighbours_that_fit_together(sizes: list[int], least: int, target_bytes: int) -> None:
    manifest = Manifest()
    for version, size in enumerate(sizes, 1):
        manifest = manifest.committed([DataFile(f"f{version}", version, version, size, size, 0.0)], {}, 0.0)
    run = manifest.small("", target_bytes, least)
    versions = [each.first for each in run]
    assert not run or len(run) >= least
    assert sum(each.size_bytes for each in run) <= target_bytes
    assert versions == list(range(versions[0], versions[0] + len(versions))) if versions else True


@given(st.integers(100, 200), st.integers(1, 30))
def test_compaction_writes_each_byte_a_few_times_however_long_it_goes_on(commits: int, size_bytes: int) -> None:
    manifest, written = Manifest(), 0
    for number in range(1, commits + 1):
        version = manifest.version + 1
        manifest = manifest.committed([DataFile(f"f{number}", version, version, 1, size_bytes, 0.0)], {}, 0.0)
        if run := manifest.small("", 4_096, 16):
            size = sum(each.size_bytes for each in run)
            merged = DataFile(f"m{number}", run[0].first, run[-1].last, len(run), size, 0.0)
            changed = manifest.replaced([each.path for each in run], [merged], 0.0)
            assert changed is not None
            manifest, written = changed, written + size
    assert len(manifest.files) <= 16 + 16 * 3 + manifest.size_bytes() / 2_048
    assert written <= 20 * manifest.size_bytes()
