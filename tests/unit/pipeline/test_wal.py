"""The write-ahead file: what was answered for is there, once, whatever was cut off."""

from contextlib import closing
from pathlib import Path

from nearcast.pipeline.wal import Entry, Spot, Wal


def test_what_was_appended_is_read_from_any_spot_across_segments(tmp_path: Path) -> None:
    entries = [Entry((f"text {number}", "more"), f"key {number}") for number in range(6)]
    with closing(Wal(tmp_path, segment_bytes=60)) as wal:
        for entry in entries:
            wal.append([entry])
        assert len([*tmp_path.glob("*.log")]) > 2
        first, spot = wal.read(Spot(), 4)
        assert first == entries[:2]
        rest, end = wal.read(Spot.parse(str(spot)), 100)
        assert rest == entries[2:]
        assert wal.read(end, 100) == ([], end)
    with closing(Wal(tmp_path)) as again:
        assert again.keys() == {f"key {number}": 2 for number in range(6)}


def test_half_a_line_of_a_killed_writer_is_cut_off(tmp_path: Path) -> None:
    with closing(Wal(tmp_path)) as wal:
        wal.append([Entry(("whole",), "a")])
    with next(tmp_path.glob("*.log")).open("ab") as out:
        out.write(b'{"texts": ["ha')
    with closing(Wal(tmp_path)) as again:
        again.append([Entry(("next",))])
        assert again.read(Spot(), 100)[0] == [Entry(("whole",), "a"), Entry(("next",))]


def test_segments_leave_when_they_were_read_and_their_keys_are_old(tmp_path: Path) -> None:
    with closing(Wal(tmp_path, segment_bytes=10)) as wal:
        for number in range(3):
            wal.append([Entry((str(number),), str(number))])
        wal.forget(Spot(2), older_than_s=0.0)
        assert len(wal.keys()) == 3, "they are young"
        wal.forget(Spot(2), older_than_s=2e10)
        assert sorted(wal.keys()) == ["1", "2"], "the second was not read to its end"
