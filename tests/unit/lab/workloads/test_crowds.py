"""Crowds of subscribers, and what comes of what they ask for."""

import numpy as np

from nearcast.lab.workloads import fluctuating
from nearcast.lab.workloads.emergencies import CHANNELS, PAPER, Emergencies
from nearcast.lab.workloads.fluctuating import Fluctuating


def test_subscribers_of_emergencies_are_those_of_the_paper() -> None:
    crowd = Emergencies(3).crowd
    count = np.diff(crowd.first)
    assert (len(crowd.login_s), crowd.brokers, len(CHANNELS)) == (400, 5, 7)
    assert (count.min() >= 1, count.max() <= 15) == (True, True)
    assert 500 <= crowd.keys <= 700
    assert 2_100 <= len(crowd.key) <= 2_700
    assert crowd.login_s.max() <= PAPER.last_login_s <= crowd.since_s.min()
    assert crowd.since_s.max() <= PAPER.last_subscription_s
    owner = np.repeat(np.arange(400), count)
    assert len(set(zip(owner.tolist(), crowd.key.tolist(), strict=True))) == len(crowd.key)


def test_a_channel_runs_when_it_is_due_and_sends_all_that_came_since() -> None:
    city = Emergencies(3)
    seen = {at_s: city.results(at_s) for at_s in (10.0, 20.0, 30.0)}
    channel = np.array([each.channel for each in city.asked])
    for at_s, (keys, size_bytes) in seen.items():
        due = {number for number, each in enumerate(CHANNELS) if at_s % each.period_s == 0.0}
        assert {int(channel[key]) for key in keys.tolist()} == due
        assert size_bytes.sum() > 0.0
    keys, size_bytes = seen[10.0]
    by_type = size_bytes[channel[keys] == 0]
    sent = city.report_bytes[city.sent_s < 10.0].sum()
    assert by_type.sum() <= sent + 1e-6
    if len(by_type) == 8:
        assert by_type.sum() == np.float64(sent) or abs(by_type.sum() - sent) < 1e-6


def test_emergencies_of_a_seed_are_the_same_every_time() -> None:
    one, other, third = Emergencies(5), Emergencies(5), Emergencies(6)
    assert one.results(30.0)[1].tolist() == other.results(30.0)[1].tolist() != third.results(30.0)[1].tolist()


def test_the_simulated_crowd_is_that_of_the_paper_and_skewed() -> None:
    crowd = Fluctuating(3).crowd
    count = np.diff(crowd.first)
    assert (len(crowd.login_s), crowd.brokers, crowd.keys) == (10_000, 10, 1_000)
    assert (count.min(), count.max()) == (10, 30)
    assert 195_000 < len(crowd.key) < 205_000
    homes = np.bincount(crowd.distance_km.argmin(axis=1), minlength=10)
    assert homes.max() > 2_000
    assert homes.min() < 500


def test_rates_rise_and_fall() -> None:
    world = Fluctuating(3)
    every = np.array([at_s for at_s in np.arange(0.0, 1800.0, fluctuating.TICK_S) if at_s % 60.0 == 0.0])
    total = []
    for at_s in np.arange(0.0, 1800.0, fluctuating.TICK_S).tolist():
        keys, size_bytes = world.results(at_s)
        if at_s % 60.0 == 0.0:
            assert len(keys) == 1_000
            total.append(float((size_bytes / world._period_s[keys]).sum()))
    assert len(total) == len(every)
    assert total[0] < 1.1 * 15e6
    assert max(total) > 1.3 * 15e6
    assert 0.0 < np.isinf(world._rise_s).mean() < 0.9
