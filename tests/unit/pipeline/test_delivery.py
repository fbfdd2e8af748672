"""Results as agents pull them: whole executions, how far they go, and what is not there any more."""

from collections.abc import Iterable, Iterator

from nearcast.domain.channel import Notification, SubscriptionKey
from nearcast.domain.execution import Execution
from nearcast.pipeline.delivery import read_results
from nearcast.pipeline.progress import Kept
from nearcast.wire.channels import Pull, Pulled

A, B = SubscriptionKey("a"), SubscriptionKey("b")
MADE = {A: [1, 2, 5, 6], B: [3, 6]}  # which executions have a row


class Files:
    def keys(self, execution: Execution) -> dict[SubscriptionKey, int]:
        return {key: 1 for key, numbers in MADE.items() if execution.number in numbers}

    def notifications(self, execution: Execution, keys: Iterable[SubscriptionKey]) -> Iterator[Notification]:
        for key in keys:
            if execution.number in MADE[key]:
                before = [each for each in MADE[key] if each < execution.number]
                yield Notification(key, execution.number, before[-1] if before else None, ({"n": execution.number},))


def read(
    after: dict[str, int],
    *,
    floor: int = 0,
    since: dict[str, int] | None = None,
    most: int = 1000,
    without: tuple[int, ...] = (),
) -> Pulled:
    numbers = range(max(floor, min(after.values())) + 1, 8)
    kept = Kept(floor, tuple(Execution(number, 0.0) for number in numbers if number not in without))
    return read_results(Pull("b1", "c", tuple(after.items()), most), Files(), kept, since or {}, 7)


def shown(answer: Pulled) -> dict[str, list[tuple[int, int, int]]]:
    return {key: [(each.execution, each.previous, each.floor) for each in found] for key, found in answer.results}


def test_each_key_gets_what_came_after_its_own_position() -> None:
    answer = read({A: 1, B: 3})
    assert shown(answer) == {A: [(2, 1, 0), (5, 2, 0), (6, 5, 0)], B: [(6, 3, 0)]}
    assert answer.until == 7
    assert not answer.cut


def test_an_answer_ends_with_a_whole_execution_and_says_with_which() -> None:
    answer = read({A: 0, B: 0}, most=12)
    assert answer.until < 7
    assert {key: [each[0] for each in found] for key, found in shown(answer).items()} == {A: [1, 2]}
    assert answer.until == 2


def test_of_what_is_kept_no_more_it_is_said_up_to_where() -> None:
    answer = read({A: 0}, floor=4)
    assert shown(answer) == {A: [(5, 2, 4), (6, 5, 0)]}
    assert answer.cut == ((A, 4),)


def test_what_was_not_made_because_nobody_asked_is_not_passed_over() -> None:
    answer = read({A: 2}, since={A: 4})
    assert shown(answer) == {A: [(5, 4, 4), (6, 5, 4)]}
    assert answer.cut == ((A, 4),)


def test_the_number_of_an_execution_that_was_killed_is_not_one_whose_results_are_gone() -> None:
    answer = read({A: 2, B: 3}, without=(3, 4))
    assert shown(answer) == {A: [(5, 2, 0), (6, 5, 0)], B: [(6, 3, 0)]}
    assert not answer.cut
