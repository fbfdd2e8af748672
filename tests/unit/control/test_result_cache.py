"""Results that are kept for those who come late."""

from nearcast.control.result_cache import ResultCache
from nearcast.wire.channels import Result


def result(execution: int, previous: int, rows: bytes = b"[]") -> Result:
    return Result(execution, previous, rows)


def executions(cache: ResultCache, key: str, after: int) -> list[int] | None:
    found = cache.after(key, after)
    return None if found is None else [each.execution for each in found]


def test_what_came_after_is_had_from_where_it_is_kept_on() -> None:
    cache = ResultCache(100_000)
    for execution, previous in ((4, 2), (7, 4), (9, 7)):
        cache.keep("a", result(execution, previous))
    assert executions(cache, "a", 3) == [4, 7, 9]
    assert executions(cache, "a", 7) == [9]
    assert executions(cache, "a", 1) is None, "execution 2 had rows too"
    assert executions(cache, "b", 0) is None


def test_only_what_follows_without_a_hole_is_of_use() -> None:
    cache = ResultCache(100_000)
    cache.keep("a", result(4, 2))
    cache.keep("a", result(9, 7))
    assert executions(cache, "a", 3) is None
    assert executions(cache, "a", 8) == [9]


def test_the_oldest_go_when_there_is_no_room() -> None:
    cache = ResultCache(1_000)
    for execution in range(1, 30):
        for key in ("a", "b"):
            cache.keep(key, result(execution, execution - 1))
            assert cache.used_bytes <= 1_000
    assert executions(cache, "b", 28) == [29]
    assert executions(cache, "a", 1) is None


def test_a_key_that_is_forgotten_takes_no_room() -> None:
    cache = ResultCache(1_000)
    for execution in range(1, 200):
        cache.keep("a", result(execution, execution - 1))
        cache.forget("a")
    assert cache.used_bytes == 0
    assert executions(cache, "a", 198) is None
