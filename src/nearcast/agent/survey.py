"""The clockwork around an agent's whereabouts: it probes others, answers who probes it, and reports what it found."""

from collections.abc import Callable, Collection, Mapping

import msgspec

from nearcast.agent.analyzer import Users
from nearcast.agent.monitor import Monitor, differs
from nearcast.brokers.link import Connect, LearnAddresses
from nearcast.brokers.pool import Inbox, LinkPool
from nearcast.control.fleet_time import FleetTime, Reading
from nearcast.control.whereabouts import Whereabouts, coordinate_of, position_of, spot_of
from nearcast.coords.coordinate import Coordinate
from nearcast.domain.broker import Addresses
from nearcast.domain.whereabouts import BrokerPlace, Spot, TopicPlace
from nearcast.transport.alarm import Alarm
from nearcast.transport.clock import Clock
from nearcast.transport.crew import Crew
from nearcast.wire.control import AGENT_SUBJECT, Alive, Renew, client_subject, seal, unseal
from nearcast.wire.dialect import Dialect
from nearcast.wire.loads import Counts
from nearcast.wire.places import MOST_PLACED, Echo, Located, Placed, Probe
from nearcast.wire.rejects import Rejects

PLACE_S = 5.0
_SOON_S = 0.2  # what has changed by much is put together for so long
_REST_S = 1.0  # from one report of changes to the next
_MOST_ADDRESSES = 1000


class Survey:
    """Other brokers are reached over links of its own: a probe behind forwarded messages would measure those.

    `users` are the topics here and who uses them, `ring` the fleet as the agent knows it; `say` reports.
    """

    def __init__(
        self,
        machine: Whereabouts,
        broker: str,
        connect: Connect,
        clock: Clock,
        crew: Crew,
        *,
        dialect: Dialect,
        rejects: Rejects,
        users: Callable[[], Mapping[str, Users]],
        ring: Callable[[], tuple[str, ...]],
        say: Callable[[Placed], None],
        learn: LearnAddresses,
    ) -> None:
        self.machine = machine
        self.time: FleetTime = machine.time
        self.monitor = Monitor()
        self._broker = broker
        self._pool = LinkPool(connect, clock, crew, inbox=self._inbox, on_state=_ignore, on_open=self._reached)
        self._clock = clock
        self._dialect = dialect
        self._rejects = rejects
        self._users = users
        self._ring = ring
        self._say = say
        self._learn = learn
        self._book: dict[str, str] = {}
        self._round = 0
        self._place_s = clock.now() + 1.0  # when all topics are told next
        self._soon_s: float | None = None  # when those of clients that moved are
        self._moved: dict[str, None] = {}
        self._rest_s = clock.now()  # until when nothing more is told of changes
        self._told: dict[str, TopicPlace] = {}  # what was last told of each topic
        self._alarm = Alarm(clock, self._tick)

    def start(self) -> None:
        self._tick()

    async def close(self) -> None:
        self._alarm.cancel()
        await self._pool.close()

    def cancel(self) -> None:
        self._alarm.cancel()

    # What comes in

    def answer(self, probe: Probe, received_s: float) -> Echo:
        """`received_s` and what is said of it are on the own clock; in the echo on the fleet's, where it is known."""
        now, time = self._clock.now(), self.time
        peers = self.machine.gossip(probe.asker.removeprefix("agent-"), now)
        return Echo(
            self._broker,
            probe.number,
            received_s + time.ahead_s,
            now + time.ahead_s,
            position_of(self._coordinate()),
            time.term,
            time.uncertainty_s(now),
            peers,
            tuple((each, self._book[each]) for each in peers if each in self._book),
            time.wander_s(now),
            self.machine.nearest_s(now) if probe.passing else (),
        )

    def located(self, message: Located) -> None:
        now = self._clock.now()
        if self.monitor.located(message, self._here(), now):
            self._moved[message.client] = None
            if self._soon_s is None:
                self._soon_s = max(now + _SOON_S, self._rest_s)
                self._alarm.set(min(self._soon_s, self.machine.wake_s(now)))

    def counted(self, counts: Counts) -> None:
        self.monitor.counted(counts, self._clock.now())

    def renewed(self, message: Renew) -> None:
        """Where the leader has this broker on its map; and its clock, halfway between question and answer."""
        now = self._clock.now()
        if message.at is not None:
            self.machine.charted(coordinate_of(message.at), now)
        if not message.fleet_s:
            return
        near_s = (now - message.asked_s) / 2.0
        if near_s >= 0.0:
            ahead_s = message.fleet_s + near_s - now
            self.time.take(Reading(now, ahead_s, near_s, term=message.term))

    def dated(self, message: Alive) -> Alive:
        """With the fleet's time, so that the next leader can go on with it."""
        fleet_s = self._clock.now() + self.time.ahead_s if self.time.mark else 0.0
        return msgspec.structs.replace(message, fleet_s=fleet_s)

    def told_of(self, addresses: Addresses) -> None:
        self._book.update(addresses)
        for broker in list(self._book)[:-_MOST_ADDRESSES]:
            del self._book[broker]

    def _inbox(self, broker: str) -> Inbox:
        def receive(data: bytes) -> None:
            message = self._rejects.read(lambda: unseal(data, self._dialect), f"agent of {broker}")
            if isinstance(message, Echo):
                if message.addresses:
                    self._learn(message.addresses)
                    self.told_of(message.addresses)
                self.machine.echo(message, self._clock.now())

        return Inbox(client_subject(self.machine.name), receive)

    # What goes out

    def _reached(self, _broker: str) -> None:
        self.machine.reached(self._clock.now())
        self._tick()

    def _tick(self) -> None:
        now, machine = self._clock.now(), self.machine
        machine.ring(self._ring())
        for broker, probe in machine.probes(now):
            if self._pool.up(broker):
                self._pool.publish(broker, AGENT_SUBJECT, seal(probe, self._dialect))
            else:
                self._pool.reach(broker)  # what waited for a connection would seem to have been long under way
        self._pool.keep(machine.linked)
        if now >= self._place_s:
            self._place_s = now + PLACE_S
            self._report_all(now)
        elif self._soon_s is not None and now >= self._soon_s:
            self._report_moved(now)
        soon_s = [] if self._soon_s is None else [self._soon_s]
        self._alarm.set(min((machine.wake_s(now), max(now, self._place_s), *soon_s)))

    def _report_all(self, now: float) -> None:
        self._forget_moved()
        self._round += 1
        topics = self.monitor.topics(self._here(), self._users(), now)
        self._told = {each.topic: each for each in topics}
        parts = [topics[first : first + MOST_PLACED] for first in range(0, len(topics), MOST_PLACED)] or [[]]
        for part in parts:
            self._say(Placed(self._place(part, now), self._round, len(parts)))

    def _report_moved(self, now: float) -> None:
        """The topics that are seen elsewhere, now that clients are; what does not fit comes with the next round.

        A crowd of clients whose round trips are noisy makes no more of them than a few do: what is said stays the same.
        """
        moved = self._moved.keys()
        users = {topic: each for topic, each in self._users().items() if moved & (each.publishers | each.subscribers)}
        self._forget_moved()
        found = self.monitor.topics(self._here(), users, now)
        topics = [each for each in found if each.topic not in self._told or differs(each, self._told[each.topic])]
        topics = topics[:MOST_PLACED]
        self._told.update((each.topic, each) for each in topics)
        if topics:
            self._rest_s = now + _REST_S
            self._say(Placed(self._place(topics, now), self._round, 0))

    def _forget_moved(self) -> None:
        self._moved.clear()
        self._soon_s = None

    def _place(self, topics: Collection[TopicPlace], now: float) -> BrokerPlace:
        clock, offset_s = self._clock, 0.0
        uncertainty_s = self.time.uncertainty_s(now)
        if uncertainty_s is not None:
            offset_s = now + self.time.ahead_s - clock.wall()
        rtts_s = self.machine.rtts_s(now)
        return BrokerPlace(self._broker, self._here(), tuple(topics), rtts_s, offset_s, uncertainty_s or 0.0)

    def _coordinate(self) -> Coordinate:
        return self.machine.coordinate() or Coordinate()

    def _here(self) -> Spot:
        return spot_of(self._coordinate())


def _ignore(_broker: str, _up: bool) -> None:
    """A link that breaks is there again when it is: meanwhile nothing is asked over it."""
