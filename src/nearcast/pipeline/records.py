"""What comes from a source, judged by a dataset's columns: what fits, and what does not with the reason.

Every function takes and gives frames; a judged one has `_record` (the dataset's columns), `_reason` (null: it fits),
`_raw`, `_source` and `_position` (which is later, of two).
"""

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING

from nearcast.domain.dataset import Dataset
from nearcast.pipeline.frames import POSITION

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

RAW, SOURCE, FAULT = "_raw", "_source", "_fault"
RECORD, REASON = "_record", "_reason"
_MOST_SHOWN = 60  # characters of a value that a reason quotes


def judged_texts(
    texts: list[str], faults: list[str | None], source: str, spark: "SparkSession", dataset: Dataset
) -> "DataFrame":
    """Of JSON objects that are at hand, the later ones last; what has a fault does not fit, for that reason."""
    import pyarrow as pa  # type: ignore[import-untyped]  # noqa: PLC0415  # an extra; untyped

    columns = {
        RAW: pa.array(texts, pa.string()),
        FAULT: pa.array(faults, pa.string()),
        SOURCE: pa.array([source] * len(texts), pa.string()),
        POSITION: pa.array(range(len(texts)), pa.int64()),
    }
    return from_json(spark.createDataFrame(pa.table(columns)), dataset)


def from_json(frame: "DataFrame", dataset: Dataset) -> "DataFrame":
    """Of texts in `_raw`, each one JSON object. With a column `_fault`, what has one does not fit, for that reason.

    Fields that no column is named after are ignored, absent ones are null.
    """
    from pyspark.sql import functions as F  # noqa: N812, PLC0415  # an extra; its usual name

    names = dataset.schema.names
    wanted = ", ".join([*(f"{each.name} {each.type}" for each in dataset.schema.columns), "_corrupt STRING"])
    parsed = frame.withColumn("_read", F.from_json(RAW, wanted, {"columnNameOfCorruptRecord": "_corrupt"}))
    unfit = F.col("_read").isNull() | F.col("_read._corrupt").isNotNull()
    found = F.try_parse_json(RAW)  # looked at only where something does not fit
    wrong = [
        _misfit(F.try_variant_get(found, f"$.{each.name}", "string"), each.name, each.type)
        for each in dataset.schema.columns
    ]
    why = (
        F.when(found.isNull(), F.lit("is no JSON"))
        .when(~F.schema_of_variant(found).startswith("OBJECT"), F.lit("is no JSON object"))
        .otherwise(F.coalesce(F.nullif(F.concat_ws("; ", *wrong), F.lit("")), F.lit("does not fit the columns")))
    )
    reasons = [F.when(unfit, why).otherwise(_missing(dataset))]
    if FAULT in frame.columns:
        reasons.insert(0, F.col(FAULT))
    record = F.struct(*(F.col(f"_read.{name}").alias(name) for name in names))
    return parsed.withColumn(RECORD, record).withColumn(REASON, F.coalesce(*reasons)).select(*_JUDGED)


def from_columns(frame: "DataFrame", dataset: Dataset) -> "DataFrame":
    """Of columns of any type that can be cast, by name, and `_fault`, `_raw`, `_source` and `_position`."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    have = {name.lower(): name for name in frame.columns}
    fields: list[Column] = []
    wrong: list[Column] = []
    for each in dataset.schema.columns:
        name = have.get(each.name.lower())
        if name is None:
            fields.append(F.lit(None).cast(each.type.lower()).alias(each.name))
            continue
        cast = F.col(name).try_cast(each.type.lower())
        fields.append(cast.alias(each.name))
        shown = F.substring(F.col(name).cast("string"), 1, _MOST_SHOWN)
        wrong.append(
            F.when(
                F.col(name).isNotNull() & cast.isNull(), F.format_string(f"{each.name}: '%s' is no {each.type}", shown)
            )
        )
    judged = frame.withColumn(RECORD, F.struct(*fields))
    misfit = F.nullif(F.concat_ws("; ", *wrong), F.lit("")) if wrong else F.lit(None)
    return judged.withColumn(REASON, F.coalesce(F.col(FAULT), misfit, _missing(dataset, RECORD))).select(*_JUDGED)


def union(frames: Sequence["DataFrame"]) -> "DataFrame":
    return reduce(lambda one, other: one.unionByName(other), frames)


def fitting(judged: "DataFrame") -> "DataFrame":
    """As a table's `write` takes it."""
    return judged.where(f"{REASON} IS NULL").select(f"{RECORD}.*", POSITION)


def unfit(judged: "DataFrame") -> "DataFrame":
    """As a side table's `write` takes it."""
    return judged.where(f"{REASON} IS NOT NULL").selectExpr(
        f"{REASON} AS reason", f"{RAW} AS raw", f"{SOURCE} AS source"
    )


_JUDGED = (RECORD, REASON, RAW, SOURCE, POSITION)


def required(dataset: Dataset) -> tuple[str, ...]:
    """Columns that every record must have."""
    key = dataset.key or ""
    return tuple(each.name for each in dataset.schema.columns if not each.nullable or each.name.lower() == key.lower())


def _missing(dataset: Dataset, record: str = "_read") -> "Column":
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    absent = [F.when(F.col(f"{record}.{name}").isNull(), F.lit(f"{name} is missing")) for name in required(dataset)]
    return F.nullif(F.concat_ws("; ", *absent), F.lit("")) if absent else F.lit(None).cast("string")


def _misfit(found: "Column", name: str, wanted: str) -> "Column":
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    here = F.col(f"_read.{name}").isNull() & found.isNotNull()
    return F.when(here, F.format_string(f"{name}: '%s' is no {wanted}", F.substring(found, 1, _MOST_SHOWN)))
