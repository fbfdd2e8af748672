"""Datasets and feeds by name: what is refused, and what two at once do."""

import asyncio

import pytest

from nearcast.domain.dataset import Dataset, Feed
from nearcast.domain.errors import CatalogRefused
from nearcast.domain.schema import parse_schema
from nearcast.pipeline.catalog import Catalog, CatalogStore
from nearcast.store.memory import MemoryStore
from nearcast.transport.clock import SystemClock

REPORTS = Dataset("Reports", "r1", parse_schema("id BIGINT, kind STRING, lat DOUBLE"))
CALLS = Feed("calls", "c1", "topic:calls", "reports")


def test_a_dataset_that_a_feed_fills_cannot_be_dropped() -> None:
    catalog = Catalog().with_dataset(REPORTS).with_feed(CALLS)
    assert catalog.feed("CALLS").dataset == "Reports"
    with pytest.raises(CatalogRefused, match="cannot drop dataset Reports: feed calls fills it; drop that first"):
        catalog.without_dataset("reports")
    assert catalog.without_feed("calls").without_dataset("reports") == Catalog()


def test_names_that_sql_could_not_tell_apart_are_refused() -> None:
    catalog = Catalog().with_dataset(REPORTS)
    with pytest.raises(CatalogRefused, match="dataset Reports is there already"):
        catalog.with_dataset(Dataset("REPORTS", "r2", REPORTS.schema))
    with pytest.raises(CatalogRefused, match="'two words' is no name for a dataset"):
        Dataset("two words", "x", REPORTS.schema)


def test_what_is_not_there_is_told_with_what_is() -> None:
    catalog = Catalog().with_dataset(REPORTS)
    with pytest.raises(CatalogRefused, match="no dataset 'report'; datasets are Reports"):
        catalog.dataset("report")
    with pytest.raises(CatalogRefused, match="no feed 'calls'; there is no feed yet"):
        catalog.feed("calls")
    with pytest.raises(CatalogRefused, match="no dataset 'nowhere'"):
        catalog.with_feed(Feed("calls", "c1", "topic:calls", "nowhere"))


@pytest.mark.parametrize(
    ("key", "message"),
    [("nobody", "key 'nobody' is no column of it; columns are id, kind, lat"), ("lat", "key 'lat' is DOUBLE")],
)
def test_a_key_is_a_column_that_can_be_compared(key: str, message: str) -> None:
    with pytest.raises(CatalogRefused, match=message):
        Dataset("d", "d1", REPORTS.schema, key=key)


async def test_of_many_changes_at_once_none_is_lost() -> None:
    store = MemoryStore(SystemClock(), delay_s=0.001)
    catalogs = [CatalogStore(store.handle(SystemClock())) for _ in range(5)]
    new = [Dataset(f"d{number}", f"i{number}", REPORTS.schema) for number in range(5)]

    async def create(catalog: CatalogStore, dataset: Dataset) -> None:
        await catalog.change(lambda now: now.with_dataset(dataset))

    await asyncio.gather(*(create(catalog, dataset) for catalog, dataset in zip(catalogs, new, strict=True)))
    assert (await catalogs[0].read()).datasets == tuple(new)
