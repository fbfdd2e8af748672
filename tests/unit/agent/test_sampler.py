"""Listening for a moment: who has a turn, and for how long what was heard holds."""

import asyncio
import random

import pytest

from nearcast.agent.sampler import Sampler, Sampling, Turns
from nearcast.brokers.link import Link
from nearcast.brokers.memory_pipe import Wire
from nearcast.domain.errors import ConfigError
from nearcast.sim.loop import in_virtual_time
from nearcast.sim.network import Network
from nearcast.transport.crew import Crew


def test_everybody_has_a_turn_and_no_more_than_a_few_at_a_time() -> None:
    turns, topics = Turns(2), ["a", "b", "c", "d", "e"]
    heard = []
    for now in (0.0, 1.0, 2.0):
        chosen = turns.next(topics, now)
        for topic in chosen:
            turns.heard(topic, now, busy=False)
        heard.append(chosen)
    assert heard == [["a", "b"], ["c", "d"], ["e"]]


def test_an_estimate_holds_until_its_turn_has_come_again() -> None:
    for count in (3, 400):
        turns, topics = Turns(4), [f"{number:03}" for number in range(count)]
        until_s: dict[str, float] = {}
        for second in range(int(2.5 * count)):
            now = 2.0 * second
            for topic in turns.next(topics, now):
                assert now <= until_s.get(topic, now), "what was heard has run out"
                until_s[topic] = turns.heard(topic, now, busy=False)


def test_one_that_is_too_busy_is_listened_to_seldom() -> None:
    turns = Turns(4)
    turns.next(["calm", "busy"], 0.0)
    for topic in ("calm", "busy"):
        turns.heard(topic, 0.0, busy=topic == "busy")
    assert turns.next(["busy", "calm"], 8.0) == ["calm"]
    assert turns.next(["busy", "calm"], 20.0) == ["busy", "calm"]


def test_a_bound_that_cannot_be_is_refused() -> None:
    with pytest.raises(ConfigError, match="messages is 0"):
        Sampling(messages=0)
    with pytest.raises(ConfigError, match="topics is -1"):
        Sampling(topics=-1)


async def paced(link: Link, topic: str, rate_hz: float) -> None:
    while True:
        link.publish(topic, bytes(100))
        await asyncio.sleep(1 / rate_hz)


@in_virtual_time
async def test_what_is_heard_is_counted_per_second_and_a_busy_topic_is_left_at_once() -> None:
    network = Network(random.Random(1), wire=Wire(delay_s=0.001), store_delay_s=0.001)
    network.add_broker("b")
    link = await network.connector("plain")("b", lambda _up: None)
    process, crew = network.start_process("agent"), Crew()
    sampler = Sampler("b", process.connect, process.clock, Sampling(topics=3, messages=100))
    for topic, rate_hz in (("slow", 20.0), ("busy", 2000.0)):
        crew.start(paced(link, topic, rate_hz), topic)
    await asyncio.sleep(1.0)
    begun_s = process.clock.now()
    samples = {each.topic: each for each in await sampler.sample(["busy", "silent", "slow"], crew)}
    assert samples["slow"].publications == pytest.approx(20.0, rel=0.1)
    assert samples["slow"].bytes_in == pytest.approx(2000.0, rel=0.1)
    assert (samples["busy"].publications, samples["busy"].bytes_in) == (100.0, 10_000.0), "at least that much"
    assert samples["silent"].publications == 0.0
    assert process.clock.now() - begun_s < 1.5
    again = await sampler.sample(["busy", "silent", "slow"], crew)
    assert again == [], "what was heard still holds"
    await crew.close()
    await sampler.close()
    await link.close()
