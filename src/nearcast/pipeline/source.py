"""nearcast as a Spark data source: `spark.dataSource.register(NearcastDataSource)`, then `format("nearcast")`.

Runs in whichever processes Spark chooses; each needs nearcast installed. The configuration file is read where the
program runs, and what it says goes along with the tasks.
"""

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from nearcast.pipeline.source_options import ReadOptions, WriteOptions
from nearcast.pipeline.source_read import SCHEMA, TopicReader, must_be_read_as
from nearcast.pipeline.source_stream import TopicStreamReader
from nearcast.pipeline.source_write import TopicStreamWriter, TopicWriter, must_be_written


class NearcastDataSource(DataSource):
    """See docs/spark.md."""

    @classmethod
    def name(cls) -> str:
        return "nearcast"

    def schema(self) -> str:
        return SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        must_be_read_as(schema)
        return TopicReader(ReadOptions.of(self.options, stream=False))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  # Spark's name
        must_be_read_as(schema)
        return TopicStreamReader(ReadOptions.of(self.options, stream=True))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        options = WriteOptions.of(self.options)
        must_be_written(schema, options, overwrite=overwrite)
        return TopicWriter(options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802  # Spark's name
        options = WriteOptions.of(self.options)
        must_be_written(schema, options, overwrite=overwrite)
        return TopicStreamWriter(options)
