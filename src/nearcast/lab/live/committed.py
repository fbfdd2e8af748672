"""What a table had at each version, by its files alone, without the code that made them."""

from collections.abc import Iterator
from typing import Any

from nearcast.pipeline.manifest import RECORDS
from nearcast.pipeline.tables import Table, in_thread

VERSION = "_version"


class Archive:
    """Every record that was ever committed, once for each version. Look often: files are dropped some time."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._seen: set[str] = set()
        self._rows: dict[tuple[object, int], dict[str, Any]] = {}

    async def look(self) -> None:
        manifest = await self._table.head()
        paths = [each.path for each in manifest.files if each.part == RECORDS]
        paths += [each.path for each in manifest.dropped]
        for path in paths:
            if path not in self._seen:
                self._seen.add(path)
                await in_thread(self._read, path)

    def rows(self) -> Iterator[dict[str, Any]]:
        """In the order of versions."""
        for _, row in sorted(self._rows.items(), key=lambda each: each[0][1]):
            yield row

    def _read(self, path: str) -> None:
        from pyarrow import parquet  # type: ignore[import-untyped]  # noqa: PLC0415  # an extra; untyped

        for row in parquet.read_table(self._table.folder / path).to_pylist():
            if "id" in row:  # a file of the side table that was dropped has none
                self._rows[row["id"], row[VERSION]] = row
