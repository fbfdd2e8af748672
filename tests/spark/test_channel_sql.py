"""What each subscription of a channel gets, on real Spark: the answer that it would get alone."""

import math
import random
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import reduce
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # its usual name

from nearcast.domain.channel import Parameter
from nearcast.domain.errors import ChannelError
from nearcast.pipeline.answers import joined, literals, parameters_frame, plan, show
from nearcast.pipeline.grid import EARTH_KM
from nearcast.pipeline.sample import Source, few
from nearcast.pipeline.sql import KEY, PARAMETERS, Compiled, Compiler
from nearcast.pipeline.sql_tokens import tokens
from nearcast.pipeline.trial import quick, tried
from tests.spark import channel_shapes

DECLARED = tuple(map(Parameter.parse, channel_shapes.PARAMETERS))
SOURCES = {name: Source(schema) for name, schema in channel_shapes.DATASETS.items()}


def answers(
    session: SparkSession,
    text: str,
    declared: tuple[Parameter, ...],
    asked: Sequence[Mapping[str, Any]],
    sources: Mapping[str, Source],
) -> tuple[list[list[Any]], Compiled]:
    """Of all at once, each in its order; and what was run."""
    compiler = Compiler(text, declared, sources)
    trial = tried(session, compiler, declared, sources)
    compiled = compiler.compiled(trial.columns, trial.bound)
    frame = parameters_frame(session, declared, {f"{number:03}": each for number, each in enumerate(asked)})
    frame.createOrReplaceTempView(PARAMETERS)
    found: list[list[Any]] = [[] for _ in asked]
    for row in joined(session, compiled, {}, frame).collect():
        found[int(row[0])].append(tuple(row)[1:])
    return found, compiled


@pytest.fixture(scope="module")
def data(spark: SparkSession) -> SparkSession:
    chance, session = random.Random(20261116), quick(spark)
    for name, rows in channel_shapes.rows(chance).items():
        frame = few(session, rows, channel_shapes.DATASETS[name])
        show(name, frame, frame, frame)
    return session


@pytest.mark.slow
@pytest.mark.parametrize("shape", channel_shapes.SHAPES)
def test_all_at_once_is_what_each_gets_alone(data: SparkSession, shape: str) -> None:
    """In the first form that Spark runs, whatever the shape of the query."""
    text, asked = channel_shapes.SHAPES[shape], channel_shapes.asked(random.Random(shape))
    frame = parameters_frame(data, DECLARED, {str(number): each for number, each in enumerate(asked)})
    frame.createOrReplaceTempView(PARAMETERS)
    alone = [data.sql(text, literals(DECLARED, each)) for each in asked]
    keyed = [
        each.select(F.lit(str(number)).alias(KEY), *(each[name] for name in each.columns))
        for number, each in enumerate(alone)
    ]
    wanted = reduce(lambda some, more: some.unionAll(more), keyed).collect()
    compiler = Compiler(text, DECLARED, channel_shapes.DATASETS)
    found: list[Row] | None = None
    ordered = False
    for bound in compiler.bindings:
        compiled = compiler.compiled(alone[0].columns, bound)
        with suppress(PySparkException, Py4JJavaError):
            found, ordered = joined(data, compiled, {}, frame).collect(), bool(compiled.order)
            break
    assert found is not None
    for number, each in enumerate(asked):
        got, must = ([tuple(row) for row in rows if row[0] == str(number)] for rows in (found, wanted))
        assert got == must if ordered else sorted(got, key=repr) == sorted(must, key=repr), each


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT id,\n  sverity FROM reports WHERE kind = :kind", "line 2, column 3: .*UNRESOLVED_COLUMN.*`sverity`"),
        ("SELECT id FROM reports WHERE kind == = :kind", "line 1, column 38: .*PARSE_SYNTAX_ERROR"),
        ("SELECT id FROM reports WHERE kind = :kind LIMIT length(:kind)", "column .*must evaluate to a constant value"),
        ("SELECT id, id FROM reports WHERE kind = :kind", "two columns of the result are named 'id'"),
        ("SELECT r.id, s.id AS s FROM reports r FULL JOIN shelters s ON r.kind = s.kind AND r.kind = :kind", "answer"),
    ],
)  # fmt: skip
def test_what_spark_refuses_or_gets_wrong_is_refused_when_the_channel_is_created(
    spark: SparkSession, text: str, message: str
) -> None:
    declared = DECLARED[:1]
    with pytest.raises(ChannelError, match=message):
        tried(spark, Compiler(text, declared, SOURCES), declared, SOURCES)


@pytest.mark.slow
def test_parameters_of_every_type_are_what_they_would_be_alone(spark: SparkSession) -> None:
    given: dict[str, Any] = {
        "STRING": "it's",
        "BOOLEAN": False,
        "INT": -7,
        "BIGINT": 7,
        "DOUBLE": 2.0,
        "DATE": "2024-02-29",
        "TIMESTAMP": "2026-11-16T13:00:00.25Z",
    }
    declared = tuple(Parameter.parse(f"{each.lower()}_ {each}") for each in given)
    asked = {each.name: given[each.type] for each in declared}
    text = "SELECT " + ", ".join(f":{each.name} AS x{each.name}" for each in declared)
    session = quick(spark)
    frame = parameters_frame(session, declared, {"0": asked})
    frame.createOrReplaceTempView(PARAMETERS)
    alone = session.sql(text, literals(declared, asked))
    at_once = joined(session, Compiler(text, declared, []).compiled(alone.columns), {}, frame).drop(KEY)
    assert at_once.dtypes == alone.dtypes
    assert [kind.upper() for _, kind in alone.dtypes] == list(given)
    assert at_once.collect() == alone.collect()


@pytest.mark.slow
def test_a_query_that_fails_on_made_up_records_only_is_taken(spark: SparkSession) -> None:
    text = "SELECT id, CAST(city AS INT) AS number FROM reports WHERE kind = :kind"
    (told,) = tried(spark, Compiler(text, DECLARED[:1], SOURCES), DECLARED[:1], SOURCES).warnings
    assert told.startswith("it was tried out without records, because it fails on made-up ones: line 1, column 12: ")


def test_comparing_every_pair_is_told(spark: SparkSession) -> None:
    text = "SELECT id FROM reports WHERE abs(weight - :least) < 2 OR kind = :kind"
    told = tried(spark, Compiler(text, DECLARED, SOURCES), DECLARED, SOURCES).warnings
    assert [each.partition(" (")[0] for each in told] == [
        "every record is compared with every subscription, or with every record of another dataset"
    ]
    text = "SELECT id FROM reports WHERE kind = :kind AND severity > :least"
    assert tried(spark, Compiler(text, DECLARED, SOURCES), DECLARED, SOURCES).warnings == ()


FRAGMENTS = (
    *("a", ":b", ": c", "::", "'x'", "'it''s'", r"'\\'", r"'\'' ", '"d"', '"e""f"', "`g`", "`h``i`", "r'\\'", 'R"j"'),
    *("-- :k 'l\n", "/* :m */", "/* /* ' */ :n */", "(", ")", "[", "]", ".5", "1.", "1.5e3", "x.y", "->", ":o.p"),
    *("+", "/", "*", ","),
)


def test_strings_comments_and_colons_are_where_sparks_own_lexer_has_them(spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    parser = jvm.org.apache.spark.sql.catalyst.parser
    for seed in range(12):
        chance = random.Random(seed)
        text = " ".join(chance.choice(FRAGMENTS) for _ in range(60))
        stream = jvm.org.antlr.v4.runtime.CharStreams.fromString(text)
        found = parser.SqlBaseLexer(parser.UpperCaseCharStream(stream)).getAllTokens()
        theirs = [(each.getStartIndex(), each.getStopIndex() + 1) for each in found if each.getChannel() == 0]
        ours = [(each.start, each.stop) for each in tokens(text)[:-1]]
        assert [each for each in ours if matters(text, each)] == [each for each in theirs if matters(text, each)], text


def matters(text: str, span: tuple[int, int]) -> bool:
    token = text[slice(*span)]
    return token[0] in "'\"`:()" or (token[0] in "rR" and len(token) > 1)


# Near


def apart_km(one: tuple[float, float], other: tuple[float, float]) -> float:
    (lat, lon), (lat2, lon2) = (tuple(map(math.radians, each)) for each in (one, other))
    h = math.sin((lat - lat2) / 2) ** 2 + math.cos(lat) * math.cos(lat2) * math.sin((lon - lon2) / 2) ** 2
    return 2 * EARTH_KM * math.asin(min(1.0, math.sqrt(h)))


def test_what_is_near_is_found_at_poles_across_the_date_line_and_at_any_distance(spark: SparkSession) -> None:
    chance, session = random.Random(7), quick(spark)
    edges = [
        (90.0, 0.0),
        (-90.0, 77.0),
        (0.0, 180.0),
        (0.0, -180.0),
        (89.99, -120.0),
        (12.0, 179.999),
        (12.0, -179.999),
    ]
    places = [*edges, *((chance.uniform(-90, 90), chance.uniform(-180, 180)) for _ in range(400))]
    places += [(lat + chance.uniform(-0.05, 0.05), lon) for lat, lon in places[:60]]
    source = Source("id INT, lat DOUBLE, lon DOUBLE")
    rows = [*((number, *place) for number, place in enumerate(places)), (9999, None, 1.0), (9998, float("nan"), 1.0)]
    frame = few(session, rows, source.schema)
    show("places", frame, frame, frame)
    declared = tuple(map(Parameter.parse, ("lat DOUBLE", "lon DOUBLE", "km DOUBLE")))
    distances = (0.0, 0.5, 3.0, 40.0, 600.0, 5_000.0, 25_000.0, -1.0)
    asked = [
        {"lat": lat, "lon": lon, "km": km}
        for number, (lat, lon) in enumerate((*edges, *places[10:26]))
        for km in (distances[number % 8], distances[(number + 3) % 8])
    ]
    text = "SELECT id FROM places WHERE within_km(lat, lon, :lat, :lon, :km) ORDER BY id"
    found, compiled = answers(session, text, declared, asked, {"places": source})
    assert "Generate explode" in plan(session, compiled)
    assert "NestedLoop" not in plan(session, compiled)
    for each, got in zip(asked, found, strict=True):
        far = [apart_km((each["lat"], each["lon"]), place) for place in places]
        must = {number for number, km in enumerate(far) if km <= each["km"] * (1 - 1e-9) - 1e-6}
        may = {number for number, km in enumerate(far) if each["km"] >= 0 and km <= each["km"] * (1 + 1e-9) + 1e-6}
        ids = [row[0] for row in got]
        assert must <= set(ids) <= may, each
        assert len(ids) == len(set(ids)), each


def test_two_datasets_are_near_each_other(spark: SparkSession) -> None:
    chance, session = random.Random(8), quick(spark)
    sources = {
        "users": Source("name STRING, lat DOUBLE, lon DOUBLE"),
        "places": Source("id INT, lat DOUBLE, lon DOUBLE"),
    }
    users = [(f"u{number}", chance.uniform(-1, 1), chance.choice((179.9, -179.9))) for number in range(12)]
    places = [(number, chance.uniform(-1, 1), chance.uniform(179, 181)) for number in range(80)]
    for name, rows in (("users", users), ("places", places)):
        frame = few(session, rows, sources[name].schema)
        show(name, frame, frame, frame)
    text = (
        "SELECT p.*, u.lat AS here FROM users u, places p"
        " WHERE u.name = :name AND is_new(p) AND within_km(u.lat, u.lon, p.lat, p.lon, 60)"
    )
    asked = [{"name": name} for name, _, _ in users]
    found, _ = answers(session, text, (Parameter.parse("name STRING"),), asked, sources)
    for (_, lat, lon), got in zip(users, found, strict=True):
        wanted = [(*each, lat) for each in places if apart_km((lat, lon), each[1:]) <= 60]
        assert sorted(got) == wanted
    assert sum(map(len, found)) > 20
    text = text.replace(" 60)", " :km)")
    reach = [chance.choice((0.0, 5.0, 60.0, 300.0, -1.0)) for _ in users]
    near: list[dict[str, Any]] = [{"name": name, "km": km} for (name, _, _), km in zip(users, reach, strict=True)]
    declared = (Parameter.parse("name STRING"), Parameter.parse("km DOUBLE"))
    found, compiled = answers(session, text, declared, near, sources)
    assert "NestedLoop" not in plan(session, compiled)
    for (_, lat, lon), km, got in zip(users, reach, found, strict=True):
        assert sorted(got) == [(*each, lat) for each in places if apart_km((lat, lon), each[1:]) <= km]


def test_what_a_left_join_adds_is_found_by_cells_and_who_has_none_stays(spark: SparkSession) -> None:
    chance, session = random.Random(9), quick(spark)
    sources = {
        "users": Source("name STRING, lat DOUBLE, lon DOUBLE"),
        "places": Source("id INT, lat DOUBLE, lon DOUBLE"),
    }
    users: list[tuple[str, float | None, float]] = [
        (f"u{number}", chance.uniform(-1, 1), chance.choice((179.9, -179.9, 170.0))) for number in range(12)
    ]
    users.append(("nowhere", None, 1.0))
    places = [(number, chance.uniform(-1, 1), chance.uniform(179, 181)) for number in range(80)]
    for name, rows in (("users", users), ("places", [*places, (999, None, None), (998, float("nan"), 180.0)])):
        frame = few(session, rows, sources[name].schema)
        show(name, frame, frame, frame)
    text = (
        "SELECT u.name, p.* FROM users u LEFT JOIN places p ON within_km(p.lat, p.lon, u.lat, u.lon, 60)"
        " WHERE u.name = :name"
    )
    asked = [{"name": name} for name, _, _ in users]
    found, compiled = answers(session, text, (Parameter.parse("name STRING"),), asked, sources)
    assert "NestedLoop" not in plan(session, compiled)
    for (name, lat, lon), got in zip(users, found, strict=True):
        near = [] if lat is None else [(name, *each) for each in places if apart_km((lat, lon), each[1:]) <= 60]
        alone: list[Any] = [(name, None, None, None)]
        assert sorted(got) == (near or alone)
    assert sum(len(each) > 1 for each in found) > 3
    assert sum(each[0][1] is None for each in found) > 1


def test_two_distances_beside_each_other_go_through_cells_and_joins_begin_with_who_asks(spark: SparkSession) -> None:
    """Without it, everybody's place was joined with every report and every shelter before anyone was looked for."""
    chance, session = random.Random(10), quick(spark)
    sources = {
        "users": Source("name STRING, lat DOUBLE, lon DOUBLE"),
        "reports": Source("id INT, lat DOUBLE, lon DOUBLE"),
        "shelters": Source("id INT, lat DOUBLE, lon DOUBLE"),
    }
    users = [(f"u{number}", chance.uniform(-1, 1), chance.choice((179.9, -179.9))) for number in range(12)]
    reports = [(number, chance.uniform(-1, 1), chance.uniform(179, 181)) for number in range(40)]
    shelters = [(number, chance.uniform(-1, 1), chance.uniform(179, 181)) for number in range(30)]
    for name, rows in (("users", users), ("reports", reports), ("shelters", shelters)):
        frame = few(session, rows, sources[name].schema)
        show(name, frame, frame, frame)
    text = (
        "SELECT r.id, sort_array(collect_list(s.id)) AS shelters FROM users u, reports r"
        " LEFT JOIN shelters s ON within_km(s.lat, s.lon, r.lat, r.lon, :reach)"
        " WHERE is_new(r) AND u.name = :name AND within_km(u.lat, u.lon, r.lat, r.lon, :km) GROUP BY r.id"
    )
    declared = tuple(map(Parameter.parse, ("name STRING", "km DOUBLE", "reach DOUBLE")))
    asked: list[dict[str, Any]] = [
        {"name": name, "km": chance.choice((60.0, 90.0)), "reach": chance.choice((20.0, 40.0, -1.0))}
        for name, _, _ in users
    ]
    found, compiled = answers(session, text, declared, asked, sources)
    told = plan(session, compiled)
    assert "NestedLoop" not in told
    assert "Cartesian" not in told
    for each, (_, lat, lon), got in zip(asked, users, found, strict=True):
        near = [report for report in reports if apart_km((lat, lon), report[1:]) <= each["km"]]
        wanted = [
            (one, [shelter for shelter, *at in shelters if apart_km((at[0], at[1]), (x, y)) <= each["reach"]])
            for one, x, y in near
        ]
        assert sorted(got) == wanted
    assert sum(bool(each) for got in found for _, each in got) > 10
