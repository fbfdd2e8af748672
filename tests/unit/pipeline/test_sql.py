"""What is rewritten in a channel's query, what is left alone, and where an error is."""

import pytest

from nearcast.domain.channel import Parameter
from nearcast.domain.errors import ChannelError
from nearcast.pipeline.sql import BINDINGS, Compiler

DATASETS = ["Reports", "shelters", "users"]
SPREAD = "__t.* EXCEPT (__x, __y, __z, __r), explode("


def compiler(text: str, *parameters: str) -> Compiler:
    return Compiler(text, [Parameter.parse(each) for each in parameters], DATASETS)


def joined(text: str, *parameters: str, columns: tuple[str, ...] = ("id",)) -> str:
    """What stands within LATERAL."""
    found = compiler(text, *parameters).compiled(columns).joined.text
    before, after = "SELECT __p.__key, __q.* FROM __params __p JOIN LATERAL (", "\n) __q"
    assert found.startswith(before)
    assert found.endswith(after)
    return found[len(before) : -len(after)]


@pytest.mark.parametrize(
    "kept",
    [
        "':kind'",
        '":kind"',
        "'it''s :kind'",
        r"'\' :kind'",
        r"r'\' || ':kind'",
        "-- :kind\n 1",
        "/* :kind /* :kind */ :kind */ 1",
        "$$ :kind ' $$",
        "`:kind`",
        "weight::STRING",
        "v:kind.a",
        "v:kind::STRING",
        "CAST(v AS STRUCT<kind:INT, a: ARRAY<STRUCT<b:INT>>>)",
        "a.b.kind",
        "v[0]:kind",
    ],
)
def test_what_only_looks_like_a_parameter_is_left_alone(kept: str) -> None:
    text = f"SELECT {kept} AS x FROM reports WHERE kind = :asked"  # noqa: S608  # no input
    assert joined(text, "asked STRING") == text.replace(":asked", "__p.__asked")
    assert compiler(text, "asked STRING").alone().text == text


@pytest.mark.parametrize(
    "text",
    [
        "SELECT {0}",
        "SELECT a + {0}, f({0}), -{0}, [{0}] FROM reports",
        "SELECT CASE {0} WHEN {0} THEN {0} ELSE {0} END FROM reports",
        "SELECT 1 FROM reports WHERE a IN ({0}, {0}) AND b LIKE {0} ESCAPE '!' OR NOT {0}",
        "SELECT 1 FROM reports WHERE a BETWEEN {0} AND {0} AND x IS DISTINCT FROM {0}",
        "SELECT extract(DAY FROM {0}), {0} :: STRING FROM reports HAVING {0} LIMIT {0} OFFSET {0}",
    ],
)
def test_parameters_are_found_wherever_an_operand_can_be(text: str) -> None:
    assert joined(text.format(":x"), "x INT") == text.format("__p.__x")
    assert joined(text.format(": x"), "x INT") == text.format("__p.__x")


def test_a_subquery_that_uses_a_parameter_is_bound_by_the_select_around_it() -> None:
    text = "SELECT * FROM reports r WHERE EXISTS (SELECT 1 FROM shelters s WHERE s.kind = r.kind AND s.beds > :least)"
    assert joined(text, "least INT") == (
        "SELECT * EXCEPT (__b1.__least) FROM (SELECT __p.__least AS __least) __b1 CROSS JOIN reports r"
        " WHERE EXISTS (SELECT 1 FROM shelters s WHERE s.kind = r.kind AND s.beds > __b1.__least)"
    )


def test_a_subquery_two_levels_down_is_bound_at_each() -> None:
    text = "SELECT id FROM reports WHERE a IN (SELECT b FROM shelters WHERE c IN (SELECT d FROM users WHERE e = :e))"
    assert joined(text, "e INT") == (
        "SELECT id FROM (SELECT __p.__e AS __e) __b1 CROSS JOIN reports WHERE a IN (SELECT b"
        " FROM (SELECT __b1.__e AS __e) __b2 CROSS JOIN shelters WHERE c IN (SELECT d FROM users WHERE e = __b2.__e))"
    )


def test_a_binding_comes_after_joins_that_keep_rows_and_before_lateral_views() -> None:
    text = (
        "SELECT s.id FROM reports r RIGHT JOIN shelters s ON r.kind = s.kind LATERAL VIEW explode(s.a) v AS e"
        " WHERE (SELECT max(x) FROM users) > 1 AND e IN (SELECT x FROM users WHERE y = :y)"
    )
    assert "ON r.kind = s.kind CROSS JOIN (SELECT __p.__y AS __y) __b1 LATERAL VIEW" in joined(text, "y INT")


def test_a_with_query_that_uses_a_parameter_is_put_where_it_is_read() -> None:
    text = "WITH c(k) AS (SELECT kind FROM shelters WHERE beds > :n), d AS (SELECT 1) SELECT c.k FROM c JOIN c e JOIN d"
    assert joined(text, "n INT") == (
        "WITH  d AS (SELECT 1) SELECT c.k FROM (SELECT kind FROM shelters WHERE beds > __p.__n) AS c(k)"
        " JOIN (SELECT kind FROM shelters WHERE beds > __p.__n) e(k) JOIN d"
    )


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (
            "SELECT r.* FROM Reports AS r, shelters WHERE is_new(r) AND r.kind = :kind",
            "SELECT r.* FROM `__new_reports` `r`, shelters WHERE true AND r.kind = __p.__kind",
        ),
        (
            "SELECT 1 FROM users JOIN reports ON left(a, 1) = left(:kind, 1) AND is_new(reports)",
            "SELECT 1 FROM users JOIN `__new_reports` `reports` ON left(a, 1) = left(__p.__kind, 1) AND true",
        ),
        (
            "SELECT * FROM reports r LEFT JOIN users u ON u.a = r.a WHERE is_new(r) AND r.kind = :kind",
            "SELECT * FROM `__new_reports` `r` LEFT JOIN users u ON u.a = r.a WHERE true AND r.kind = __p.__kind",
        ),
        (
            "SELECT * FROM users RIGHT OUTER JOIN reports r USING (a) WHERE is_new(r) AND r.kind = :kind",
            "SELECT * FROM users RIGHT OUTER JOIN `__new_reports` `r` USING (a) WHERE true AND r.kind = __p.__kind",
        ),
    ],
)
def test_what_is_new_is_read_from_a_view_of_its_own_where_nothing_else_is_asked_for(text: str, wanted: str) -> None:
    assert joined(text, "kind STRING") == wanted


@pytest.mark.parametrize(
    "text",
    [
        "SELECT *, r.* FROM reports r WHERE is_new(r) OR r.kind = :kind",
        "SELECT *, r.* FROM reports r WHERE NOT is_new(r) AND r.kind = :kind",
        "SELECT *, r.* FROM reports r WHERE CASE WHEN true AND is_new(r) AND true THEN true END AND r.kind = :kind",
        "SELECT *, r.* FROM shelters s LEFT JOIN reports r ON true WHERE is_new(r) AND r.kind = :kind",
        "SELECT *, r.* FROM shelters s LEFT OUTER JOIN (users JOIN reports r) WHERE is_new(r) AND r.kind = :kind",
        "SELECT *, r.* FROM reports r RIGHT JOIN users WHERE is_new(r) AND r.kind = :kind",
        "SELECT *, r.* FROM reports r FULL JOIN users WHERE is_new(r) AND r.kind = :kind",
        "SELECT *, r.* FROM users FULL OUTER JOIN reports r WHERE is_new(r) AND r.kind = :kind",
        "SELECT *, r.* FROM reports r LEFT JOIN users ON is_new(r) WHERE r.kind = :kind",
        "SELECT *, r.* FROM reports r WHERE (is_new(r) AND true) = true AND r.kind = :kind",
    ],
)
def test_what_is_new_is_a_column_otherwise_which_no_star_shows(text: str) -> None:
    found = joined(text, "kind STRING")
    assert found.startswith("SELECT * EXCEPT (`r`.__new), r.* EXCEPT (`r`.__new) FROM ")
    assert "`__marked_reports` `r`" in found
    assert "`r`.__new" in found.partition(" FROM ")[2]


def test_the_order_of_rows_is_kept_by_columns_of_the_result_or_by_hidden_ones() -> None:
    text = "SELECT r.id, r.kind AS k FROM reports r WHERE kind = :kind ORDER BY 2 DESC, id, r.weight NULLS LAST LIMIT 3"
    found = compiler(text, "kind STRING").compiled(("id", "k"))
    assert found.order == ("`k` DESC", "`id`", "`__o3` NULLS LAST")
    assert found.hidden == ("__o3",)
    assert "AS k, r.weight AS __o3 FROM" in found.joined.text


def test_times_are_arguments_of_spark() -> None:
    text = "SELECT id FROM reports WHERE at > previous_channel_time() AND at <= current_channel_time() AND kind = :kind"
    assert joined(text, "kind STRING").endswith("at > :__before AND at <= :__now AND kind = __p.__kind")


def test_within_km_of_a_parameter_goes_through_cells() -> None:
    text = "SELECT * FROM reports WHERE within_km(lat, lon, :lat, :lon, 2 * :km)"
    found = compiler(text, "lat DOUBLE", "lon DOUBLE", "km DOUBLE").compiled(("id",))
    assert [(each.radius, each.argument) for each in found.grids] == [("2 * __km", "__scale1")]
    assert "SELECT * EXCEPT (__g1.__c) FROM (SELECT explode(" in found.joined.text
    assert ") __g1 CROSS JOIN reports WHERE" in found.joined.text
    assert "= __g1.__c AND " in found.joined.text


def test_cells_around_a_parameter_come_before_an_inner_join_that_needs_them_beside_an_outer_one() -> None:
    inner = "SELECT r.id FROM users u JOIN reports r ON within_km(r.lat, r.lon, :lat, :lat, 5)"
    found = compiler(f"{inner} LEFT JOIN shelters s ON s.id = r.id", "lat DOUBLE").compiled(("id",))
    assert ") __g1 CROSS JOIN users u JOIN reports r ON (" in found.joined.text
    found = compiler(f"{inner} FULL JOIN shelters s ON s.id = r.id", "lat DOUBLE").compiled(("id",))
    assert found.grids == ()


def test_cells_that_a_condition_of_a_join_needs_come_before_it() -> None:
    text = "SELECT r.id FROM users u JOIN reports r ON within_km(r.lat, r.lon, :lat, :lat, 5) AND u.id = r.user"
    found = compiler(text, "lat DOUBLE").compiled(("id",)).joined.text
    assert " FROM (SELECT explode(" in found
    assert ") __g1 CROSS JOIN users u JOIN reports r ON (" in found


@pytest.mark.parametrize(
    "text",
    [
        "SELECT r.* FROM users u, reports r WHERE is_new(r) AND u.id = :id AND within_km(u.a, u.b, r.a, r.b, 5)",
        "SELECT r.* FROM users u JOIN reports r ON within_km(u.a, u.b, r.a, r.b, 5) WHERE is_new(r) AND u.id = :id",
    ],
)
def test_within_km_of_two_datasets_reads_the_new_one_by_cells(text: str) -> None:
    found = compiler(text, "id INT").compiled(("id",))
    assert f"(SELECT {SPREAD}" in found.joined.text
    assert " FROM `__new_reports` `r`) __t WHERE" in found.joined.text
    assert found.joined.text.count("EXCEPT (`r`.__c)") == 1
    assert [each.radius for each in found.grids] == ["5"]


def test_a_distance_of_each_ones_own_between_two_datasets_has_cells_for_the_largest() -> None:
    text = "SELECT r.id FROM users u, reports r WHERE is_new(r) AND u.id = :id AND within_km(u.a, u.b, r.a, r.b, :km)"
    found = compiler(text, "id INT", "km DOUBLE").compiled(("id",))
    assert [(each.radius, each.argument, each.reach) for each in found.grids] == [("__km", "__scale1", "__reach1")]
    cells = found.joined.text.partition(SPREAD)[2].partition(" `r` WHERE")[0]
    assert ":__reach1" in cells
    assert "__p.__km" not in cells
    assert "pow((2 * sin(least(CAST(__p.__km AS DOUBLE)" in found.joined.text, "it is exact in the end"


def test_what_a_left_join_adds_goes_through_cells_unless_it_is_another_ones_condition() -> None:
    near = "within_km(s.lat, s.lon, r.lat, r.lon, 5)"
    text = "SELECT r.id FROM reports r LEFT JOIN shelters s ON NEAR WHERE r.kind = :kind".replace("NEAR", near)
    found = compiler(text, "kind STRING").compiled(("id",))
    assert f"LEFT JOIN (SELECT {SPREAD}" in found.joined.text
    assert " FROM `shelters` `s`) __t WHERE" in found.joined.text
    assert [each.radius for each in found.grids] == ["5"]
    for other in (
        "SELECT r.id FROM reports r LEFT JOIN shelters s ON true LEFT JOIN users u ON NEAR WHERE r.kind = :kind",
        "SELECT r.id FROM reports r LEFT JOIN shelters s ON true LEFT JOIN (SELECT 1) u ON NEAR WHERE r.kind = :kind",
        "SELECT r.id FROM shelters s RIGHT JOIN reports r ON NEAR WHERE r.kind = :kind",
        "SELECT r.id FROM reports r LEFT JOIN shelters s ON NEAR OR s.id = 1 WHERE r.kind = :kind",
    ):
        assert compiler(other.replace("NEAR", near), "kind STRING").compiled(("id",)).grids == (), other


@pytest.mark.parametrize(
    "text",
    [
        "SELECT id FROM reports WHERE within_km(lat, lon, :lat, :lat, 5) OR kind = 'x'",
        "SELECT id FROM reports WHERE NOT within_km(lat, lon, :lat, :lat, 5)",
        "SELECT id FROM reports WHERE within_km(lat, lon, :lat, :lat, reach)",
        "SELECT r.id FROM reports r LEFT JOIN users u ON within_km(r.lat, r.lon, :lat, :lat, 5)",
    ],
)
def test_within_km_that_is_no_condition_of_its_own_compares_every_pair(text: str) -> None:
    found = compiler(text, "lat DOUBLE").compiled(("id",))
    assert found.grids == ()
    assert "within_km" not in found.joined.text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT id\nFROM reprots", "line 2, column 6: no dataset 'reprots'; datasets: reports, shelters, users"),
        ("SELECT id FROM parquet.`/etc`", "line 1, column 16: no dataset 'parquet./etc'"),
        ("SELECT id FROM reports WHERE kind = :kin", "line 1, column 37: parameter :kin is not declared"),
        ("SELECT id FROM reports; DROP TABLE x", "line 1, column 23: one SELECT is expected"),
        ("DELETE FROM reports", "line 1, column 1: expected a SELECT, found 'DELETE'"),
        ("", "line 1, column 1: expected a SELECT, found 'nothing'"),
        ("SELECT (id FROM reports", "line 1, column 8: a \\( that is not closed"),
        ("SELECT id) FROM reports", "line 1, column 10: a \\) that closes nothing"),
        ("SELECT 'id FROM reports", "line 1, column 8: a ' that is not closed"),
        ("SELECT /* id FROM reports", "line 1, column 8: a comment that is not closed"),
        ("SELECT __p.id FROM reports", "line 1, column 8: __p: names that begin with __ are nearcast's own"),
        ("SELECT is_new(x) FROM reports r", "line 1, column 8: is_new\\(x\\): no dataset has this name or alias"),
        ("SELECT within_km(1, 2) FROM reports r", "line 1, column 8: within_km takes 5 arguments, found 2"),
        ("WITH RECURSIVE c AS (SELECT 1) SELECT 1 FROM c", "line 1, column 6: WITH RECURSIVE"),
    ],
)  # fmt: skip
def test_an_error_names_line_and_column(text: str, message: str) -> None:
    with pytest.raises(ChannelError, match=f"^{message}"):
        compiler(text)


def test_a_parameter_that_is_not_used_is_refused() -> None:
    with pytest.raises(ChannelError, match="parameter 'kind' is declared, and the query does not use it"):
        compiler("SELECT 1 FROM reports", "kind STRING")


def test_a_place_in_the_rewritten_text_is_known_in_the_users() -> None:
    text = "SELECT id\nFROM reports WHERE :kind = kind AND :kind = nothing"
    found = compiler(text, "kind STRING").compiled(("id",)).joined
    assert found.place(found.text.index("nothing")) == "line 2, column 45"
    assert found.place(found.text.index("__p.__kind = nothing")) == "line 2, column 37"
    assert compiler(text, "kind STRING").datasets == ("reports",)


def test_a_binding_is_the_first_relation_unless_that_would_change_the_meaning() -> None:
    ask = "AND u.id IN (SELECT user FROM shelters WHERE kind = :kind)"
    natural = "users u NATURAL JOIN reports r"
    for sources in ("users u JOIN reports r", "users u, reports r LEFT JOIN shelters s USING (a)", natural):
        found = joined(f"SELECT u.id FROM {sources} WHERE true {ask}", "kind STRING")  # noqa: S608  # no input
        assert f"FROM (SELECT __p.__kind AS __kind) __b1 CROSS JOIN {sources} WHERE" in found
    pivot = "users u PIVOT (count(a) FOR b IN (1))"
    for sources in ("users u FULL JOIN reports r", pivot):
        found = joined(f"SELECT u.id FROM {sources} WHERE true {ask}", "kind STRING")  # noqa: S608  # no input
        assert f"FROM {sources} CROSS JOIN (SELECT __p.__kind AS __kind) __b1 WHERE" in found


@pytest.mark.parametrize(
    ("text", "early"),
    [
        ("SELECT r.id FROM reports r WHERE r.kind = :kind", False),
        ("SELECT r.id FROM users u, reports r WHERE is_new(r) AND u.id = r.user AND u.kind = :kind", True),
        ("SELECT r.id FROM reports r LEFT JOIN shelters s USING (kind) WHERE is_new(r) AND r.kind = :kind", False),
        ("SELECT r.id FROM reports r LEFT JOIN shelters s USING (kind) WHERE r.kind = :kind", True),
        ("SELECT t.id FROM (SELECT r.id FROM reports r JOIN users u ON r.kind = :kind) t", True),
    ],
)
def test_joins_begin_with_who_asks_where_all_of_a_dataset_is_joined(text: str, *, early: bool) -> None:
    found = compiler(text, "kind STRING")
    assert ("WHERE" in found.bindings[0]) is early
    assert sorted(map(sorted, found.bindings)) == sorted(map(sorted, BINDINGS))


@pytest.mark.parametrize(
    ("sources", "spread"),
    [
        ("users u, reports r LEFT JOIN shelters s USING (a) WHERE NEAR AND", True),
        ("users u JOIN reports r ON NEAR LEFT JOIN shelters s USING (a) WHERE", True),
        ("users u LEFT JOIN reports r USING (a) WHERE NEAR AND", False),
        ("users u JOIN shelters s LEFT JOIN reports r ON u.a = r.a WHERE NEAR AND", False),
        ("users u JOIN reports r LEFT JOIN shelters s ON NEAR WHERE", False),
        ("users u JOIN reports r FULL JOIN shelters s USING (a) WHERE NEAR AND", False),
        ("users u NATURAL JOIN reports r WHERE NEAR AND", False),
    ],
)
def test_a_distance_beside_an_outer_join_goes_through_cells_where_every_row_has_both(
    sources: str, *, spread: bool
) -> None:
    near = "within_km(u.lat, u.lon, r.lat, r.lon, 5)"
    text = f"SELECT u.id FROM {sources.replace('NEAR', near)} u.kind = :kind"  # noqa: S608  # no input
    assert (SPREAD in joined(text, "kind STRING")) is spread
