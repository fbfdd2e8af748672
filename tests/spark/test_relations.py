"""RELOC's relations on Spark: the pattern of telemetry, factors, and the same strongest relations as in memory."""

import numpy as np
import pytest
from pyspark.sql import SparkSession

from nearcast.domain.errors import SchemaError
from nearcast.lab.workloads.field import Field, drawn_area
from nearcast.pipeline.relations import (
    factors_on,
    memberships_in,
    numbered,
    pattern_of,
    strongest_on,
    telemetry_of,
)
from nearcast.policies.relations import factors_of, strongest
from nearcast.policies.reloc import best_allocated
from nearcast.policies.settings import Allocation
from nearcast.predict.homed import delay_of
from tests.spark.conftest import rows, values

FACTORS, MOST = 8, 20


def test_a_pattern_counts_each_role_of_a_client_on_a_topic(spark: SparkSession) -> None:
    told = values(
        spark, "topic, client, role", ("t", "a", "pub"), ("t", "a", "pub"), ("t", "b", "sub"), ("u", "a", "sub")
    )
    found = rows(pattern_of(told), "topic", "client", "published", "heard")
    assert found == [("t", "a", 2, 0), ("t", "b", 0, 1), ("u", "a", 0, 1)]
    assert rows(pattern_of(told, least=2), "topic", "client") == [("t", "a")]
    with pytest.raises(SchemaError, match="no column 'role'"):
        pattern_of(told.drop("role"))


def test_what_telemetry_was_made_of_is_found_in_it_and_equal_factors_give_equal_homes(spark: SparkSession) -> None:
    area = drawn_area(Field(topics=24), 3)
    telemetry = telemetry_of(spark, area, 5_000)
    assert telemetry.count() == 5_000
    numbers = numbered(pattern_of(telemetry).cache())
    assert numbers.clients == area.clients
    first, topic, publishes, subscribes = memberships_in(numbers)
    assert (first.tolist(), topic.tolist()) == (area.first.tolist(), area.topic.tolist())
    assert publishes.all()
    assert subscribes.all()

    here = factors_of(area, FACTORS)
    related = strongest_on(spark, numbers, here, MOST)
    assert (related == strongest(area, here, MOST)).all()
    allocation = Allocation(clusters=4)
    mine, theirs = (best_allocated(area, allocation, each)[0] for each in (strongest(area, here, MOST), related))
    assert (mine == theirs).all()

    # Factors of its own differ in rounding, and in the signs of columns; what they are for does not.
    there = factors_on(numbers, FACTORS)
    assert np.allclose(np.abs((here**2).sum(axis=0)), (there**2).sum(axis=0), rtol=1e-6)
    other = best_allocated(area, allocation, strongest_on(spark, numbers, there, MOST))[0]
    assert delay_of(area, other).y_s == pytest.approx(delay_of(area, mine).y_s, rel=0.01)
