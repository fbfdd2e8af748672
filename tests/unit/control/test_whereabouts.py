"""Whom a process probes, what it makes of the answers, and whom it tells."""

import random
from dataclasses import replace

import pytest

from nearcast.control.fleet_time import FleetTime
from nearcast.control.whereabouts import FRESH_S, LATE_S, TURN_S, Pace, Whereabouts
from nearcast.coords.coordinate import Coordinate
from nearcast.wire.places import Echo, Position, Probe

PACE = Pace(every_s=5.0, first_s=0.25, growth=2.0, most=4)
AWAY = Position((0.01, *(0.0,) * 7), 0.001, 0.0, 0.5)


def machine(*, broker: str = "", gateway: str = "", pace: Pace = PACE) -> Whereabouts:
    return Whereabouts("me", pace, FleetTime(), random.Random(1).random, broker=broker, gateway=gateway)


def answer(
    to: Whereabouts,
    broker: str,
    probe: Probe,
    at_s: float,
    *,
    rtt_s: float = 0.02,
    at: Position = AWAY,
    ahead_s: float = 100.0,
    uncertainty_s: float | None = None,
    peers: tuple[str, ...] = (),
    onward_s: tuple[tuple[str, float], ...] = (),
) -> bool:
    """As if it had been sent at `at_s`, and held for a millisecond."""
    middle_s = at_s + ahead_s + rtt_s / 2
    echo = Echo(broker, probe.number, middle_s, middle_s + 0.001, at, 1, uncertainty_s, peers, rtts_s=onward_s)
    return to.echo(echo, at_s + rtt_s + 0.001)


def asked(found: list[tuple[str, Probe]]) -> list[str]:
    return [broker for broker, _ in found]


def test_all_brokers_in_use_are_probed_in_every_round_and_one_other_in_turn() -> None:
    me = machine()
    me.ring(("b1", "b2", "b3"))
    me.use(["b1"], 0.0)
    rounds = [found for number in range(12) if (found := asked(me.probes(number / 4)))]
    assert len(rounds) == 4
    assert all(each[0] == "b1" and len(each) == 2 for each in rounds)
    assert {each[1] for each in rounds} == {"b2", "b3"}


def test_it_is_fast_at_first_and_slow_later() -> None:
    me = machine()
    me.use(["b1"], 0.0)
    sent_s = [step / 20 for step in range(300) if me.probes(step / 20)]
    assert sent_s == pytest.approx([0.0, 0.25, 0.75, 1.75, 3.75, 7.75, 12.75], abs=0.06)


def test_the_time_that_the_other_side_held_a_probe_does_not_count() -> None:
    me = machine()
    me.use(["b1"], 0.0)
    ((broker, probe),) = me.probes(0.0)
    assert answer(me, broker, probe, 0.0, rtt_s=0.02)
    assert me.rtt_s("b1", 1.0) == pytest.approx(0.02)
    assert me.rtt_s("b1", FRESH_S + 1.0) is None, "that was long ago"


def test_answers_that_were_held_up_do_not_make_a_broker_far_and_a_longer_way_does_soon() -> None:
    """Machines are late at times, all clients of one with it: topics would be moved for that, and back."""
    me = machine(pace=replace(PACE, first_s=1.0, growth=1.0))
    me.use(["b1"], 0.0)
    found = []
    for number, rtt_s in enumerate((0.02, 0.12, 0.3, 0.02, 0.05, 0.05, 0.05)):
        ((broker, probe),) = me.probes(float(number))
        assert answer(me, broker, probe, float(number), rtt_s=rtt_s)
        found.append(me.rtt_s("b1", number + 0.5))
    assert found == pytest.approx([0.02] * 6 + [0.05])


def test_an_echo_that_nobody_waits_for_or_that_is_late_changes_nothing() -> None:
    me = machine()
    me.use(["b1"], 0.0)
    ((_, probe),) = me.probes(0.0)
    assert not answer(me, "b2", probe, 0.0), "it was another that was asked"
    assert not answer(me, "b1", probe, 0.0), "and its number is used up"
    ((_, probe),) = me.probes(1.0)
    me.probes(1.0 + LATE_S)
    assert not answer(me, "b1", probe, 1.0)
    assert me.coordinate() is None


def test_a_sample_that_cannot_be_is_counted_and_changes_nothing() -> None:
    me = machine()
    me.use(["b1"], 0.0)
    ((_, probe),) = me.probes(0.0)
    assert answer(me, "b1", probe, 0.0, at=Position((float("nan"),) * 8, 0.0, 0.0, 1.0))
    ((_, probe),) = me.probes(1.0)
    assert answer(me, "b1", probe, 1.0, rtt_s=-0.5)
    assert (me.bad_samples, me.coordinate(), me.rtts_s(1.0)) == (2, None, ())


def test_a_clients_time_is_its_agents_and_half_the_round_trip_less_sure() -> None:
    me = machine()
    me.use(["b1"], 0.0)
    ((_, probe),) = me.probes(0.0)
    answer(me, "b1", probe, 0.0, rtt_s=0.02, ahead_s=1000.0, uncertainty_s=0.005)
    assert me.time.ahead_s == pytest.approx(1000.0)
    assert me.time.uncertainty_s(0.021) == pytest.approx(0.015)


def test_one_that_moves_is_at_its_gateway_and_its_access_above_it() -> None:
    me = machine(gateway="b2")
    me.use(["b1"], 0.0)
    for broker, probe in me.probes(0.0):
        answer(me, broker, probe, 0.0, rtt_s=0.004 if broker == "b2" else 0.03)
    found = me.coordinate()
    assert found is not None
    assert found.vec == AWAY.vec
    assert found.height == pytest.approx(AWAY.height + 0.004)
    ((broker, told),) = me.tellings(0.1)
    assert broker == "b1"
    assert told.rtt_s == pytest.approx(0.03), "what it uses is measured"
    assert dict(told.rtts_s) == {"b2": pytest.approx(0.004)}, "and so is the gateway"


def test_one_that_moves_has_the_way_beyond_its_gateway_from_the_agent_there() -> None:
    me = machine(gateway="b2")
    me.use(["b1"], 0.0)
    probes = dict(me.probes(0.0))
    assert [broker for broker, probe in probes.items() if probe.passing] == ["b2"]
    answer(me, "b2", probes["b2"], 0.0, rtt_s=0.004, onward_s=(("b1", 0.01), ("b3", 0.02)))
    ((_, told),) = me.tellings(0.1)
    assert dict(told.rtts_s) == {"b2": pytest.approx(0.004), "b3": pytest.approx(0.024)}
    assert told.rtt_s is None, "to what it uses it measures all of the way"
    me.set_gateway("b4", 0.2)
    assert me.nearest_s(0.2) == (), "from elsewhere it is another way"


def test_agents_are_told_what_was_measured_to_the_nearest_other_brokers() -> None:
    me = machine(pace=replace(PACE, most=40))
    brokers = [f"b{number:02}" for number in range(20)]
    me.use(brokers, 0.0)
    for number, (broker, probe) in enumerate(me.probes(0.0)):
        answer(me, broker, probe, 0.0, rtt_s=0.040 - 0.001 * number)
    told = dict(me.tellings(0.1))
    assert [broker for broker, _ in told["b00"].rtts_s] == brokers[:-17:-1]
    assert [broker for broker, _ in told["b19"].rtts_s] == brokers[-2:-17:-1], "but for the one that is told"


def test_another_gateway_is_probed_at_once_and_what_was_measured_before_is_forgotten() -> None:
    me = machine(gateway="b2")
    me.use(["b1"], 0.0)
    for broker, probe in me.probes(0.0):
        answer(me, broker, probe, 0.0)
    me.tellings(0.1)
    under_way = me.probes(0.3)
    me.set_gateway("b3", 0.4)
    assert not any(answer(me, broker, probe, 0.3) for broker, probe in under_way), "they left from where it was"
    assert me.rtt_s("b1", 0.4) is None
    assert me.coordinate() is None
    found = dict(me.probes(0.4))
    assert set(found) == {"b3", "b1"}
    there = Position((0.05, *(0.0,) * 7), 0.001, 0.0, 0.5)
    answer(me, "b3", found["b3"], 0.4, at=there)
    ((broker, told),) = me.tellings(0.45)
    assert (broker, told.at.vec, told.rtt_s) == ("b1", there.vec, None)


def test_agents_are_told_every_five_seconds_and_at_once_of_what_is_new() -> None:
    me = machine(pace=Pace(every_s=0.1, first_s=0.1, growth=1.0, most=0))
    me.use(["b1"], 0.0)
    told_s = []
    for step in range(200):
        now = step / 10
        for broker, probe in me.probes(now):
            answer(me, broker, probe, now, rtt_s=0.01 if step < 120 else 0.05, uncertainty_s=0.001)
        told_s += [now for _ in me.tellings(now + 0.06)]
    at_once = [each for each in told_s if 12.0 < each < 12.5]
    assert at_once, "the round trip has changed by much"
    assert [each for each in told_s if each < 12.0][-2:] == pytest.approx([5.0, 10.0], abs=0.15)


def test_a_new_broker_in_use_is_told_at_once() -> None:
    me = machine()
    me.use(["b1"], 0.0)
    ((broker, probe),) = me.probes(0.0)
    answer(me, broker, probe, 0.0)
    assert [broker for broker, _ in me.tellings(0.1)] == ["b1"]
    me.use(["b1", "b2"], 1.0)
    assert [broker for broker, _ in me.tellings(1.0)] == ["b2"]
    assert "b2" in asked(me.probes(1.0))


def test_an_agent_probes_a_bounded_number_of_others_and_in_time_all() -> None:
    me = machine(broker="b0", pace=Pace(every_s=1.0, first_s=1.0, growth=1.0, most=4))
    me.ring(tuple(f"b{number}" for number in range(20)))
    seen: set[str] = set()
    for now in range(0, int(200 * TURN_S), 10):
        for broker, probe in me.probes(float(now)):
            answer(me, broker, probe, float(now), rtt_s=0.01 * int(broker[1:]))
            seen.add(broker)
        assert len(me.linked) <= 4
    assert seen == {f"b{number}" for number in range(1, 20)}


def test_brokers_that_others_name_are_probed_and_given_up_when_they_do_not_answer() -> None:
    me = machine(broker="b0", pace=Pace(every_s=1.0, first_s=1.0, growth=1.0, most=8))
    me.ring(("b0", "b1"))
    ((broker, probe),) = me.probes(0.0)
    answer(me, broker, probe, 0.0, peers=("b9", "b0"))
    later = {broker for now in range(1, 9) for broker, _ in me.probes(float(now))}
    assert later == {"b1", "b9"}
    assert {broker for now in range(200, 210) for broker, _ in me.probes(float(now))} == {"b1"}


def test_only_brokers_that_answer_or_are_in_the_ring_are_passed_on() -> None:
    me = machine(broker="b0")
    me.ring(("b0", "b1"))
    ((broker, probe),) = me.probes(0.0)
    answer(me, broker, probe, 0.0, peers=("b9",))
    assert me.gossip("me", 1.0) == ("b1",)
    assert me.gossip("b1", 1.0) == ()


def test_an_agent_is_where_the_leaders_map_has_it_until_nobody_says_so_any_more() -> None:
    me = machine(broker="b1")
    me.ring(("b1", "b2"))
    [(broker, probe)] = me.probes(0.0)
    answer(me, broker, probe, 0.0)
    own = me.coordinate()
    charted = Coordinate((0.02, *(0.0,) * 7), 0.003, 0.0, 0.05)
    me.charted(charted, 1.0)
    assert me.coordinate() == charted
    me.charted(charted, 5.0)
    me.probes(4.9 + FRESH_S)
    assert me.coordinate() == charted
    me.probes(20.0 + FRESH_S)
    assert me.coordinate() == own


def test_a_place_on_the_map_that_cannot_be_is_counted_and_not_taken() -> None:
    me = machine(broker="b1")
    for bad in (Coordinate((float("nan"), *(0.0,) * 7)), Coordinate((0.1, 0.2))):
        me.charted(bad, 1.0)
    assert me.coordinate() is None
    assert me.bad_samples == 2
