"""What agents want of the pipeline: differences, sessions, and how long a key outlives its followers."""

from nearcast.control.demand import PENDING, Demand, Demanded
from nearcast.control.timing import Timing
from nearcast.control.wanted import Teller
from nearcast.domain.channel import Subscription
from nearcast.wire.channels import MOST_CHANGES, Committed, Known, Want, Wanted

FIRES = Subscription("fires", (("city", "ulm"),))
FLOODS = Subscription("floods", (("city", "ulm"),))
TIMING = Timing()


COMMITTED = {"fires": 7, "floods": 3}


def demand(*held: Demanded, committed: dict[str, int] | None = None) -> Demand:
    last = COMMITTED if committed is None else committed
    return Demand(held, 0.0, timing=TIMING, committed=last.get, refuse=lambda _: "")


def answered(machine: Demand, message: Wanted, now: float = 0.0) -> Known:
    """As the pipeline does it: what is new is saved, and its channel told, before anybody is answered."""
    machine.wanted(message, now)
    machine.saved(dict(machine.unsaved))
    for each in list(machine.distinct.values()):
        machine.told([each.subscription.key], COMMITTED[each.subscription.channel])
    return machine.answer(message, "url")


def told(machine: Demand, teller: Teller, now: float = 0.0) -> list[Wanted]:
    """Until nothing is left to tell."""
    out = []
    while teller.unsaid:
        for message in teller.tick(now):
            out.append(message)
            teller.known(answered(machine, message, now))
    return out


def teller(broker: str = "b1", *wants: Subscription, session: int = 1) -> Teller:
    made = Teller(broker, session, TIMING)
    for each in wants:
        made.want(each.key, Want(each, 100.0))
    return made


def test_a_key_that_many_agents_want_is_one() -> None:
    machine = demand()
    for broker in ("b1", "b2", "b3"):
        told(machine, teller(broker, FIRES))
    assert list(machine.distinct) == [FIRES.key]
    assert machine.wanted_at(FIRES.key) == ("b1", "b2", "b3")
    assert machine.distinct[FIRES.key].since == 7


def test_many_keys_are_told_in_pieces() -> None:
    many = [Subscription("fires", (("n", number),)) for number in range(MOST_CHANGES + 1)]
    machine = demand()
    assert [message.complete for message in told(machine, teller("b1", *many))] == [False, True]
    assert len(machine.distinct) == len(many)


def test_a_message_that_comes_twice_changes_nothing_and_is_answered_alike() -> None:
    machine = demand()
    (message,) = teller("b1", FIRES).tick(0.0)
    assert answered(machine, message, 0.0) == answered(machine, message, 1.0)
    assert len(machine.distinct) == 1


def test_a_pipeline_that_starts_anew_is_told_everything_again_and_holds_it_meanwhile() -> None:
    agent = teller("b1", FIRES)
    first = demand()
    told(first, agent)
    second = demand(*first.distinct.values())
    agent.want(FLOODS.key, Want(FLOODS, 100.0))
    told(second, agent, TIMING.lease_s)
    assert second.wanted_at(FIRES.key) == ("b1",)
    assert set(second.distinct) == {FIRES.key, FLOODS.key}


def test_an_agent_that_starts_anew_loses_nothing_before_it_has_told_everything() -> None:
    many = [Subscription("fires", (("n", number),)) for number in range(MOST_CHANGES + 1)]
    machine = demand()
    told(machine, teller("b1", FIRES, *many))
    again = teller("b1", *many, session=2)
    (message,) = again.tick(0.0)
    again.known(answered(machine, message))
    assert machine.wanted_at(FIRES.key) == ("b1",)
    told(machine, again)
    assert machine.wanted_at(FIRES.key) == ()
    assert FIRES.key in machine.distinct, "it is held, for who may come back"


def test_an_agent_whose_clock_went_back_is_heard_all_the_same() -> None:
    machine = demand()
    told(machine, teller("b1", FIRES, session=9))
    told(machine, teller("b1", FLOODS, session=4))
    assert machine.wanted_at(FLOODS.key) == ("b1",)


def test_a_key_outlives_its_followers_for_as_long_as_they_asked() -> None:
    machine, agent = demand(), teller("b1", FIRES)
    told(machine, agent)
    agent.drop(FIRES.key, 50.0)
    told(machine, agent, 10.0)
    machine.saved(dict(machine.unsaved))
    machine.tick(59.0)
    assert FIRES.key in machine.distinct
    machine.tick(60.0)
    assert not machine.distinct
    assert machine.unsaved == {FIRES.key: None}


def test_what_one_gives_up_is_still_held_for_another_who_is_away() -> None:
    machine, b1, b2 = demand(), teller("b1", FIRES), teller("b2", FIRES)
    told(machine, b1)
    told(machine, b2)
    b1.drop(FIRES.key, 500.0)
    told(machine, b1)
    b2.drop(FIRES.key, 0.0)
    told(machine, b2)
    machine.tick(499.0)
    assert FIRES.key in machine.distinct


def test_the_keys_of_an_agent_that_is_gone_are_held_too() -> None:
    machine = demand()
    told(machine, teller("b1", FIRES))
    machine.tick(TIMING.absent_s)
    assert machine.wanted_at(FIRES.key) == ()
    assert FIRES.key in machine.distinct


def test_each_agent_is_told_which_of_its_keys_have_rows_and_also_that_none_has() -> None:
    machine = demand()
    told(machine, teller("b1", FIRES))
    told(machine, teller("b2", FLOODS))
    told(machine, teller("b3", FIRES, FLOODS))
    assert machine.committed("fires", 8, [FIRES.key], "url") == [
        ("b1", Committed("fires", 8, (FIRES.key,), "url", session=1, number=1)),
        ("b3", Committed("fires", 8, (FIRES.key,), "url", session=1, number=1)),
    ]
    assert [broker for broker, _ in machine.committed("floods", 4, [], "url")] == ["b2", "b3"]


def test_what_cannot_be_is_refused_and_what_was_dropped_too() -> None:
    last: dict[str, int] = {"fires": 7}
    machine = Demand([], 0.0, timing=TIMING, committed=last.get, refuse=lambda each: "no" * (each.channel == "floods"))
    agent = teller("b1", FIRES, FLOODS)
    (message,) = agent.tick(0.0)
    answer = answered(machine, message)
    assert answer.begin == ((FIRES.key, 7),)
    assert answer.refused == ((FLOODS.key, "no"),)
    agent.known(answer)
    del last["fires"]
    (beat,) = agent.tick(TIMING.lease_s)
    assert dict(answered(machine, beat, 1.0).refused)[FIRES.key] == "channel fires was dropped"


def test_who_subscribes_while_an_execution_is_under_way_begins_after_it() -> None:
    machine = demand()
    (message,) = teller("b1", FIRES).tick(0.0)
    machine.wanted(message, 0.0)
    assert machine.distinct[FIRES.key].since == PENDING
    machine.told([FIRES.key], 8)
    assert dict(machine.answer(message, "url").begin) == {FIRES.key: 8}
    assert machine.unsaved[FIRES.key] == machine.distinct[FIRES.key]
    machine.told([FIRES.key], 9)
    assert machine.distinct[FIRES.key].since == 8, "it has been there since"


def test_a_channel_that_was_made_again_has_to_be_told_anew() -> None:
    machine = demand()
    told(machine, teller("b1", FIRES, FLOODS))
    assert machine.began("fires", 7) == ()
    assert machine.began("fires", 1000) == (FIRES,)
    assert machine.began("fires", 1000) == (FIRES,), "until it has been"
    machine.told([FIRES.key], 1002)
    assert (machine.distinct[FIRES.key].since, machine.began("fires", 1000)) == (1002, ())
