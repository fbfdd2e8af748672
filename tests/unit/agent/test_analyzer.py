"""What a broker's report says, from what clients counted and what the server says of itself."""

import math

import pytest

from nearcast.agent.analyzer import Analyzer, Listeners, Listening, Sample, Totals, Users
from nearcast.domain.load import BrokerReport, Resources, TopicLoad
from nearcast.wire.loads import Counts, TopicCount


def published(client: str, number: int, *, seconds: float = 1.0, topic: str = "t") -> Counts:
    return Counts(client, seconds, (TopicCount(topic, publications=number, bytes_in=100 * number),))


def got(client: str, number: int, *, seconds: float = 1.0, topic: str = "t") -> Counts:
    return Counts(client, seconds, (TopicCount(topic, deliveries=number, bytes_out=100 * number),))


def report(analyzer: Analyzer, now: float, **users: Users) -> BrokerReport:
    return analyzer.report(now, 1e9 + now, users)


def topic(analyzer: Analyzer, now: float, **users: Users) -> TopicLoad:
    (found,) = report(analyzer, now, **users).topics
    return found


def test_what_clients_count_is_summed_per_topic_and_second() -> None:
    analyzer = Analyzer("b1")
    for counts in (published("p1", 10), published("p2", 40, seconds=2.0), got("s1", 30), got("s2", 30)):
        analyzer.counted(counts, 0.0)
    assert topic(analyzer, 0.5) == TopicLoad("t", 30.0, 60.0, 3000.0, 6000.0, 2, 2)
    assert analyzer.who("t") == (("p1", "p2"), ("s1", "s2"))


def test_a_client_that_is_a_little_late_is_not_taken_for_silent_and_one_that_stopped_is() -> None:
    analyzer = Analyzer("b1")
    analyzer.counted(published("p", 10), 0.0)
    assert topic(analyzer, 1.9).publications == 10.0
    assert report(analyzer, 2.0).topics == ()
    assert analyzer.who("t") == ((), ())


def test_newer_counts_take_the_place_of_older_ones_topic_by_topic() -> None:
    analyzer = Analyzer("b1")
    analyzer.counted(published("p", 10), 0.0)
    analyzer.counted(published("p", 7, topic="u"), 0.1)  # the second part of what was too large for one message
    analyzer.counted(published("p", 20), 1.0)
    rates = {each.topic: each.publications for each in report(analyzer, 1.5).topics}
    assert rates == {"t": 20.0, "u": 7.0}


def test_a_topic_that_is_only_listened_to_is_reported_with_its_subscribers() -> None:
    assert topic(Analyzer("b1"), 0.0, t=Users(frozenset({"s1", "s2"}))) == TopicLoad("t", 0, 0, 0, 0, 0, 2)


def test_the_busiest_topics_come_first() -> None:
    analyzer = Analyzer("b1")
    for number, name in enumerate("abc", 1):
        analyzer.counted(got("s", number, topic=name), 0.0)
    assert [each.topic for each in report(analyzer, 0.0, d=Users()).topics] == ["c", "b", "a", "d"]


def test_the_bandwidth_is_what_the_server_measured() -> None:
    analyzer = Analyzer("b1", 1e6)
    analyzer.counted(got("s", 30), 0.0)
    assert report(analyzer, 0.0).out_bytes_per_s == 3000.0, "the server has not said anything: what clients count"
    analyzer.totals(Totals(0.0, 10_000))
    analyzer.totals(Totals(2.0, 510_000))
    found = report(analyzer, 2.0)
    assert (found.broker, found.at_s, found.out_bytes_per_s, found.load_ratio) == ("b1", 1e9 + 2.0, 250_000.0, 0.25)
    assert report(Analyzer("b1"), 0.0).capacity_bytes_per_s == math.inf


def test_a_server_that_was_started_anew_or_falls_silent_is_not_believed() -> None:
    analyzer = Analyzer("b1")
    for at_s, total in ((0.0, 5_000_000), (1.0, 6_000_000), (2.0, 300)):
        analyzer.totals(Totals(at_s, total))
    assert report(analyzer, 2.0).out_bytes_per_s == 1_000_000.0
    analyzer.totals(Totals(3.0, 1300))
    assert report(analyzer, 3.0).out_bytes_per_s == 1000.0
    assert report(analyzer, 10.0).out_bytes_per_s == 0.0


def test_what_a_server_uses_is_what_it_says_and_the_messages_that_it_does_not_count_are_those_of_its_clients() -> None:
    most = Resources(cores=0.5, memory_bytes=1e9)
    nats, redis = Analyzer("b1", most=most), Analyzer("b2")
    for each in (nats, redis):
        each.counted(got("s", 30), 0.0)
        assert report(each, 0.0).used == Resources(out_messages_per_s=30.0), "the server has not said anything"
    for at_s in range(5):
        odd = 0.15 if at_s == 3 else 0.3
        nats.totals(Totals(at_s, 100, 5_000 * at_s, cores=odd, memory_bytes=20_000_000))
        redis.totals(Totals(at_s, 100, cpu_s=1.0 + 0.25 * at_s, memory_bytes=1_000_000 * at_s))
    assert (report(nats, 4.0).used, report(nats, 4.0).most) == (Resources(0.3, 20_000_000, 5_000.0), most)
    redis.counted(got("s", 30), 4.0)
    assert report(redis, 4.0).used == Resources(0.25, 4_000_000, 30.0)
    assert report(redis, 10.0).used == Resources(out_messages_per_s=0.0), "it has fallen silent"


def test_some_uneven_seconds_are_not_what_a_server_uses_and_a_step_shows_some_seconds_later_in_full() -> None:
    analyzer = Analyzer("b1")
    told = []
    for at_s in range(31):
        busy = at_s in (8, 9, 10, 11) or at_s > 20
        analyzer.totals(Totals(at_s, 0, cores=0.9 if busy else 0.6))
        told.append(report(analyzer, at_s).used.cores)
    assert set(told[1:25]) == {0.6}
    assert set(told[25:]) == {0.9}


def nats_lists(at_s: float, **messages: int) -> Listening:
    """Plain subscriptions to t, each with what it has been sent so far, 100 bytes each."""
    plain = {key: (number, 100.0 * number) for key, number in messages.items()}
    return Listening(at_s, {"t": Listeners(len(plain), plain)})


def test_plain_subscribers_are_counted_by_a_nats_server() -> None:
    analyzer = Analyzer("b1")
    analyzer.listening(nats_lists(0.0, a=1000, b=1000))
    analyzer.listening(nats_lists(2.0, a=1020, b=1020, c=20))
    analyzer.counted(published("p", 10), 2.0)
    analyzer.counted(got("s", 10), 2.0)
    assert topic(analyzer, 2.0) == TopicLoad("t", 10.0, 40.0, 1000.0, 4000.0, 1, 4)


def test_plain_subscribers_are_those_that_redis_counts_beside_ours() -> None:
    analyzer = Analyzer("b1")
    analyzer.counted(published("p", 10), 0.0)
    analyzer.counted(got("s1", 10), 0.0)
    ours = Users(frozenset({"s1", "s2"}), tapped=True)
    analyzer.listening(Listening(0.0, {"t": Listeners(5)}))
    assert topic(analyzer, 0.0, t=ours) == TopicLoad("t", 10.0, 30.0, 1000.0, 3000.0, 1, 4)


def test_without_a_plain_client_nobody_is_taken_for_one() -> None:
    analyzer = Analyzer("b1")
    analyzer.counted(got("s1", 10), 0.0)
    analyzer.listening(Listening(0.0, {"t": Listeners(2)}, plain=False))  # one has attached and not said hello yet
    assert topic(analyzer, 0.0).subscribers == 1


def test_what_listeners_get_and_nobody_counted_was_published_by_plain_clients() -> None:
    analyzer = Analyzer("b1")
    analyzer.counted(published("p", 10), 0.0)
    for client in ("s1", "s2", "s3"):
        analyzer.counted(got(client, 25), 0.0)
    assert topic(analyzer, 0.5).publications == 10.0, "only what was seen twice"
    assert topic(analyzer, 1.5) == TopicLoad("t", 25.0, 75.0, 2500.0, 7500.0, 2, 3)


def test_what_agents_forward_is_nobodys_publication() -> None:
    analyzer = Analyzer("b1")
    for now in (0.0, 1.0, 2.0):
        analyzer.counted(got("s1", 25), now)
        assert topic(analyzer, now, t=Users(frozenset({"s1"}), forwarded=True)).publications == 0.0


@pytest.mark.parametrize("jitter", [0.0, 0.03, 0.08])
def test_clients_that_do_not_tell_at_the_same_instant_make_no_plain_publisher(jitter: float) -> None:
    analyzer = Analyzer("b1")
    for second in range(20):
        late = jitter * (-1) ** second
        analyzer.counted(published("p", 100), float(second))
        analyzer.counted(got("s", round(100 * (1 + late)), seconds=1 + late), second + 0.4)
        assert topic(analyzer, second + 0.5).publications == 100.0


def test_topics_that_only_plain_clients_use_are_named_where_the_server_does_not_count_their_messages() -> None:
    analyzer = Analyzer("b1")
    heard = {name: Listeners(2) for name in ("theirs", "ours", "mixed", "moving", "told")} | {"nats": Listeners(1, {})}
    analyzer.listening(Listening(0.0, heard))
    analyzer.counted(published("p", 10, topic="told"), 0.0)
    users = {
        "ours": Users(frozenset({"s1", "s2"})),
        "mixed": Users(frozenset({"s1"})),
        "moving": Users(tapped=True),
    }
    assert analyzer.uncounted(users) == ["mixed", "theirs"]
    analyzer.listening(Listening(1.0, heard, plain=False))
    assert analyzer.uncounted({}) == []


def test_what_was_sampled_counts_for_every_plain_listener_until_it_runs_out_or_somebody_counts() -> None:
    analyzer = Analyzer("b1")
    analyzer.listening(Listening(0.0, {"t": Listeners(3)}))
    analyzer.sampled(Sample("t", 20.0, 2000.0, 10.0))
    assert topic(analyzer, 1.0) == TopicLoad("t", 20.0, 60.0, 2000.0, 6000.0, 1, 3)
    analyzer.counted(published("p", 5), 2.0)
    assert topic(analyzer, 2.0).publications == 5.0
    assert topic(analyzer, 10.0) == TopicLoad("t", 0.0, 0.0, 0.0, 0.0, 0, 3)
