"""A history that is judged while it is written counts what the checker finds afterwards."""

from hypothesis import given
from hypothesis import strategies as st

from nearcast.sim.check import check
from nearcast.sim.history import History
from nearcast.sim.running import Running

GRACE_S = 1.0
TOPIC_OF = {7: "plaza", 8: "plaza", 9: "market"}

PUBLISHERS = st.sampled_from([7, 7, 8, 9])
NUMBERS = st.sampled_from([1, 1, 2])
STEPS = st.one_of(
    st.tuples(st.just("publish"), PUBLISHERS, st.booleans()),
    st.tuples(st.just("publish"), PUBLISHERS, st.just(True)),
    st.tuples(st.just("deliver next"), NUMBERS, PUBLISHERS),
    st.tuples(st.just("deliver"), NUMBERS, PUBLISHERS, st.integers(1, 6)),
    st.tuples(st.just("subscribe"), NUMBERS, st.sampled_from(["plaza", "plaza", "market"])),
    st.tuples(st.just("leave"), NUMBERS),
    st.tuples(st.just("wait"), st.sampled_from([0.1, 0.7, 1.3])),
)


def write(steps: list[tuple[object, ...]], history: History) -> None:
    """Nobody delivers what was not published yet: that is another test's affair."""
    now, begun, newest = 0.0, dict.fromkeys(TOPIC_OF, 0), dict[tuple[int, int], int]()
    stuck: set[int] = set()
    topics: dict[int, str] = {}
    left: set[int] = set()
    for step in steps:
        now += 0.01
        match step:
            case "publish", int(publisher), bool(returns) if publisher not in stuck:
                begun[publisher] += 1
                history.publish_begun(now, publisher, TOPIC_OF[publisher], begun[publisher])
                if returns:
                    history.publish_returned(now, publisher, TOPIC_OF[publisher], begun[publisher])
                else:
                    stuck.add(publisher)  # its next call would come before this one returns
            case (("deliver next" | "deliver"), int(number), int(publisher), *given):
                seq = given[0] if given else newest.get((number, publisher), 0) + 1
                if isinstance(seq, int) and seq <= begun[publisher] and topics.get(number) == TOPIC_OF[publisher]:
                    history.delivered(now, number, publisher, seq)
                    newest[number, publisher] = max(seq, newest.get((number, publisher), 0))
            case "subscribe", int(number), str(topic) if number not in topics:
                topics[number] = topic
                history.subscribe_returned(now, number, topic)
            case "leave", int(number) if number in topics and number not in left:
                left.add(number)
                history.unsubscribe_begun(now, number)
            case "wait", float(seconds):
                now += seconds
            case _:
                pass
    history.finished(now)


@given(st.lists(STEPS, max_size=40))
def test_counts_are_those_of_the_checker(steps: list[tuple[object, ...]]) -> None:
    whole, running = History(), Running(grace_s=GRACE_S)
    write(steps, whole)
    write(steps, running)
    found, expected = running.counts(), check(whole, grace_s=GRACE_S).counts()
    assert found == {name: expected[name] for name in found}


def test_what_came_before_subscribe_returned_is_not_lost_and_not_owed() -> None:
    running = Running(grace_s=GRACE_S)
    for seq in (1, 2, 3):
        running.publish_begun(0.0, 7, "plaza", seq)
        running.publish_returned(0.0, 7, "plaza", seq)
    running.delivered(0.1, 1, 7, 3)
    running.subscribe_returned(0.2, 1, "plaza")
    running.publish_begun(0.3, 7, "plaza", 4)
    running.publish_returned(0.3, 7, "plaza", 4)
    assert running.counts()["lost"] == 1
    running.delivered(0.4, 1, 7, 4)
    assert running.counts()["lost"] == 0


def test_a_message_that_nobody_published_is_seen() -> None:
    running = Running(grace_s=GRACE_S)
    running.subscribe_returned(0.0, 1, "plaza")
    running.delivered(0.1, 1, 7, 1)
    running.publish_begun(0.2, 8, "market", 1)
    running.delivered(0.3, 1, 8, 1)
    assert running.counts()["invented"] == 2
