"""The agent's side of channels: one entry per key, one question per execution, one publication per result."""

from nearcast.control.channel_agent import ChannelAgent, Fetch, Publish, TellCoordinator, TellFollower, TellPipeline
from nearcast.control.followers import ROUND_S
from nearcast.control.instructions import Instruction
from nearcast.control.timing import Timing
from nearcast.domain.channel import Subscription
from nearcast.wire.channels import (
    AtHome,
    Committed,
    Follow,
    Following,
    HomeAt,
    Known,
    Muster,
    Mustered,
    Notice,
    Pull,
    Pulled,
    Refusal,
    Rehome,
    Resident,
    Result,
    Unfollow,
    Wanted,
    Wish,
)

FIRES = Subscription("fires", (("city", "ulm"),))
FLOODS = Subscription("fires", (("city", "bonn"),))
TIMING = Timing()


def follow(machine: ChannelAgent, client: str, *wishes: Wish, now: float = 0.0) -> list[Instruction]:
    return machine.follow(Follow(client, now, wishes), now)


def wanted(instructions: list[Instruction]) -> list[Wanted]:
    told = [each.message for each in instructions if isinstance(each, TellPipeline)]
    return [each for each in told if isinstance(each, Wanted)]


def known(machine: ChannelAgent, message: Wanted, begin: int, now: float = 0.0) -> list[Instruction]:
    begins = tuple((each.subscription.key, begin) for each in message.add)
    answer = Known(message.session, message.number, message.number, begins, (("fires", begin),), (), "url")
    return machine.known(answer, now)


def result(execution: int, previous: int) -> Result:
    return Result(execution, previous, b"[]")


def to(instructions: list[Instruction], client: str) -> list[object]:
    return [each.message for each in instructions if isinstance(each, TellFollower) and each.client == client]


def ready(*clients: str, begin: int = 10) -> ChannelAgent:
    machine = ChannelAgent("b1", 1, TIMING)
    said = [each for client in clients for each in wanted(follow(machine, client, Wish(FIRES)))]
    if said:
        known(machine, said[0], begin)
    return machine


def pulled(machine: ChannelAgent, instructions: list[Instruction], answer: Pulled) -> list[Instruction]:
    (fetch,) = [each for each in instructions if isinstance(each, Fetch)]
    return machine.pulled(fetch.pull, answer, 0.0)


def test_identical_subscriptions_are_told_of_once() -> None:
    machine = ChannelAgent("b1", 1, TIMING)
    (said,) = wanted(follow(machine, "ann", Wish(FIRES)))
    assert [each.subscription for each in said.add] == [FIRES]
    assert follow(machine, "bob", Wish(FIRES)) == [], "nobody is answered before the pipeline knows of it"
    answers = known(machine, said, 10)
    for client in ("ann", "bob"):
        assert to(answers, client) == [Following(FIRES.key, 10, None, 0.0, TIMING.absent_s)]


def test_what_an_execution_has_is_pulled_in_one_question_and_published_once() -> None:
    machine = ready("ann", "bob")
    asked = machine.committed(Committed("fires", 11, (FIRES.key,), "url", session=1, number=1), 1.0)
    assert asked == [Fetch("url", Pull("b1", "fires", ((FIRES.key, 10),)))]
    done = pulled(machine, asked, Pulled(11, ((FIRES.key, (result(11, 4),)),)))
    assert done == [Publish(Notice(FIRES.key, result(11, 4)))]
    assert machine.committed(Committed("fires", 11, (FIRES.key,), "url", session=1, number=1), 1.0) == [], "told twice"


def test_an_execution_without_rows_for_us_is_not_asked_about() -> None:
    machine = ready("ann")
    assert machine.committed(Committed("fires", 11, (), "url", session=1, number=1), 1.0) == []
    assert machine.committed(Committed("fires", 12, ("other",), "url", session=1, number=1), 1.0) == []


def test_after_one_that_was_not_heard_of_everything_is_asked_about() -> None:
    machine = ready("ann")
    (fetch,) = machine.committed(Committed("fires", 12, (), "url", session=1, number=1), 1.0)
    assert isinstance(fetch, Fetch)
    assert fetch.pull.after == ((FIRES.key, 10),)


def test_a_pipeline_that_does_not_know_of_a_key_is_not_believed_that_it_has_no_rows() -> None:
    machine = ready("ann")
    (said,) = wanted(follow(machine, "bob", Wish(FLOODS)))
    known(machine, said, 10)
    (fetch,) = machine.committed(Committed("fires", 11, (), "url", session=1, number=1), 1.0)
    assert isinstance(fetch, Fetch)
    assert fetch.pull.after == ((FIRES.key, 10), (FLOODS.key, 10))


def test_who_lacks_something_gets_it_alone_and_from_what_is_kept() -> None:
    machine = ready("ann")
    asked = machine.committed(Committed("fires", 11, (FIRES.key,), "url", session=1, number=1), 1.0)
    pulled(machine, asked, Pulled(11, ((FIRES.key, (result(11, 4),)),)))
    sent = to(follow(machine, "bob", Wish(FIRES, after=10), now=2.0), "bob")
    assert sent[1:] == [Notice(FIRES.key, result(11, 4))]
    again = to(follow(machine, "bob", Wish(FIRES, after=11), now=3.0), "bob")
    assert len(again) == 1, "nothing is missing"


def test_what_is_under_way_is_not_sent_again_to_who_only_renews_its_lease() -> None:
    machine = ready("ann", "bob")
    asked = machine.committed(Committed("fires", 11, (FIRES.key,), "url", session=1, number=1), 0.0)
    pulled(machine, asked, Pulled(11, ((FIRES.key, (result(11, 4),)),)))
    renewal = Wish(FIRES, after=10, renews=True)
    (answer,) = to(follow(machine, "ann", renewal, now=0.5), "ann")
    assert answer == Following(FIRES.key, 10, 10, 0.5, TIMING.absent_s), "it has nothing after 10 yet"
    missing = [Notice(FIRES.key, result(11, 4))]
    assert to(follow(machine, "ann", Wish(FIRES, after=10), now=0.6), "ann")[1:] == missing, "it says what it lacks"
    assert to(follow(machine, "bob", Wish(FIRES, after=4, renews=True), now=0.7), "bob")[1:] != [], "it lacks more"
    assert to(follow(machine, "carl", renewal, now=0.8), "carl")[1:] == missing, "it was not here when it was published"
    late = TIMING.transit_s + 0.1
    assert to(follow(machine, "ann", renewal, now=late), "ann")[1:] == missing, "it did not come"


def test_what_is_not_kept_here_is_pulled_and_a_mark_ends_it() -> None:
    machine = ready("ann")
    asked = follow(machine, "bob", Wish(FIRES, after=3), now=2.0)
    done = pulled(machine, asked, Pulled(10, ((FIRES.key, (result(4, 2),)),)))
    assert to(done, "bob") == [Notice(FIRES.key, result(4, 2)), Notice(FIRES.key, Result(10, 4, b""), 0, 0)]
    assert not [each for each in done if isinstance(each, Publish)], "others have it"


def test_a_question_that_failed_is_asked_again_later() -> None:
    machine = ready("ann")
    (fetch,) = machine.committed(Committed("fires", 11, (FIRES.key,), "url", session=1, number=1), 1.0)
    assert isinstance(fetch, Fetch)
    machine.not_pulled(fetch.pull, 1.0)
    assert not [each for each in machine.tick(1.5) if isinstance(each, Fetch)]
    assert fetch in machine.tick(2.0)


def test_the_last_to_leave_takes_the_key_along_and_the_time_it_is_held() -> None:
    machine = ready("ann", "bob")
    assert wanted(machine.unfollow(Unfollow("ann", (FIRES.key,), 1.0, over=False), 1.0)) == []
    (said,) = wanted(machine.unfollow(Unfollow("bob", (FIRES.key,), 2.0, over=True), 2.0))
    assert said.drop == ((FIRES.key, TIMING.forget_s - 1.0),), "ann may come back"


def test_a_follower_that_is_not_heard_is_none() -> None:
    machine = ready("ann")
    (said,) = wanted(machine.tick(TIMING.absent_s))
    assert said.drop == ((FIRES.key, TIMING.forget_s),)


def test_a_goodbye_that_a_later_word_has_overtaken_counts_for_nothing() -> None:
    machine = ready("ann")
    follow(machine, "ann", Wish(FIRES, after=10), now=5.0)
    machine.unfollow(Unfollow("ann", (FIRES.key,), 4.0, over=False), 6.0)
    assert machine.keys


def test_a_client_that_should_be_elsewhere_is_told_so_once_whatever_it_follows() -> None:
    machine = ready("ann", "bob")
    follow(machine, "ann", Wish(FLOODS))
    assert machine.rehome(Rehome((("ann", "b2"),))) == [TellFollower("ann", HomeAt("b2"))]


def test_it_is_told_where_a_home_is_that_came_later() -> None:
    addresses = (("b2", "nats://there"), ("b3", "nats://elsewhere"))
    (told,) = ready("ann").rehome(Rehome((("ann", "b2"),), addresses))
    assert told == TellFollower("ann", HomeAt("b2", addresses[:1]))


def test_the_coordinator_is_told_who_follows_what_and_how_much_that_is() -> None:
    machine = ready("ann", "bob")
    follow(machine, "bob", Wish(FLOODS))
    machine.published(FIRES.key, 3000)
    machine.tick(0.0)
    machine.unfollow(Unfollow("ann", (FIRES.key,), 1.0, over=True), 1.0)
    assert machine.wake_s() <= ROUND_S
    (told,) = [each.message for each in machine.tick(ROUND_S) if isinstance(each, TellCoordinator)]
    keys, (bob,) = told.keys, told.residents
    assert (bob.client, {keys[number][0] for number in bob.keys}) == ("bob", {FIRES.key, FLOODS.key})
    assert dict(keys)[FIRES.key] > 0.0
    (none,) = [each.message for each in machine.tick(TIMING.absent_s) if isinstance(each, TellCoordinator)]
    assert none == AtHome("b1", told.round + 1), "its lease has run out"


def test_where_a_client_is_is_passed_on() -> None:
    machine, near = ready(), (("b2", 0.001),)
    machine.tick(0.0)
    machine.follow(Follow("ann", 1.0, (Wish(FIRES),), near), 1.0)
    (told,) = [each.message for each in machine.tick(2.0) if isinstance(each, TellCoordinator)]
    assert told.residents == (Resident("ann", (0,), near),)


def test_one_who_comes_while_its_key_is_being_pulled_is_not_told_that_there_is_nothing() -> None:
    machine = ready("ann")
    asked = machine.committed(Committed("fires", 11, (FIRES.key,), "url", session=1, number=1), 1.0)
    (following,) = to(follow(machine, "bob", Wish(FIRES), now=1.0), "bob")
    assert following == Following(FIRES.key, 10, None, 1.0, TIMING.absent_s)
    pulled(machine, asked, Pulled(11, ()))
    (following,) = to(follow(machine, "cid", Wish(FIRES), now=2.0), "cid")
    assert following == Following(FIRES.key, 11, None, 2.0, TIMING.absent_s)


def test_what_is_kept_is_bounded_and_the_newest_stay() -> None:
    machine = ChannelAgent("b1", 1, TIMING, most_bytes=1000)
    (said,) = wanted(follow(machine, "ann", Wish(FIRES)))
    known(machine, said, 10)
    for execution in range(11, 31):
        asked = machine.committed(Committed("fires", execution, (FIRES.key,), "url", session=1, number=1), 1.0)
        pulled(machine, asked, Pulled(execution, ((FIRES.key, (result(execution, execution - 1),)),)))
    assert machine.cache.used_bytes <= 1000
    kept = machine.cache.after(FIRES.key, 29)
    assert kept is not None
    assert [each.execution for each in kept] == [30]


def test_a_refusal_reaches_who_asked_and_nobody_else() -> None:
    machine = ChannelAgent("b1", 1, TIMING)
    (said,) = wanted(follow(machine, "ann", Wish(FIRES), Wish(FLOODS)))
    begin, refused = ((FIRES.key, 10),), ((FLOODS.key, "no"),)
    answers = machine.known(Known(1, said.number, said.number, begin, (), refused, "url"), 0.0)
    assert Refusal(FLOODS.key, "no") in to(answers, "ann")
    assert list(machine.keys) == [FIRES.key]


def test_who_falls_silent_is_given_up_and_who_renews_is_not() -> None:
    machine = ready("ann", "bob")
    follow(machine, "bob", Wish(FIRES, 10), now=15.0)
    assert machine.wake_s() <= TIMING.absent_s
    machine.tick(TIMING.absent_s)
    assert list(machine.keys[FIRES.key].followers) == ["bob"]
    machine.tick(15.0 + TIMING.absent_s)
    assert not machine.keys


def test_followers_are_counted_by_key() -> None:
    machine = ready("ann", "bob")
    assert machine.muster(Muster("op", "fires")) == [TellFollower("op", Mustered("b1", "fires", ((FIRES.key, 2),)))]
    assert machine.muster(Muster("op", "floods")) == [TellFollower("op", Mustered("b1", "floods", ()))]


def test_a_result_costs_the_same_however_many_follow() -> None:
    machine = ready(*(f"c{number}" for number in range(200)))
    asked = machine.committed(Committed("fires", 11, (FIRES.key,), "url", session=1, number=1), 1.0)
    assert pulled(machine, asked, Pulled(11, ((FIRES.key, (result(11, 4),)),))) == [
        Publish(Notice(FIRES.key, result(11, 4)))
    ]
