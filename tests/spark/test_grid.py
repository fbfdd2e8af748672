"""`within_km` as Spark computes it, at the border."""

import pytest
from pyspark.sql import SparkSession

from nearcast.pipeline.grid import within

REPORT = ("60.1715614D", "24.9358035D")
SHELTER = ("60.1759683D", "24.9340067D")  # 0.03 mm nearer than half a kilometre


@pytest.mark.parametrize(
    ("km", "near"), [("0.5", True), ("0.5D", True), ("1 / 2", True), ("0.49999997", False), ("0.49999998", True)]
)
def test_a_distance_is_no_decimal_however_it_is_written(spark: SparkSession, km: str, near: bool) -> None:
    (row,) = spark.sql(f"SELECT {within(*REPORT, *SHELTER, km)} AS near").collect()
    assert row.near is near
