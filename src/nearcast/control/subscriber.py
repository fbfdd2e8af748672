"""One subscriber of one topic: attached to several brokers at once while it moves, heard as if it were one.

    lookup -> attaching -> (barrier -> lingering ->) settled -> attaching -> ...

It asks where to be, attaches there, and leaves a broker only behind a barrier (rule 3). `Ready` is given once, when
it is first settled. Whatever comes in is put into each publisher's order by `Streams`; whatever may be missing is
reported.

Not promised: anything about messages published before `Ready`, or about order between publishers.
"""

from __future__ import annotations

import math

from nearcast.control.barrier import Barrier
from nearcast.control.instructions import Attach, Deliver, Detach, Instruction, Learn, Ready, Report, Say
from nearcast.control.lease import Lease
from nearcast.control.paths import Inbound, belongs
from nearcast.control.rules import ALL_ON, Rules
from nearcast.control.streams import Streams, View
from nearcast.control.timing import Timing
from nearcast.domain.report import Discontinuity
from nearcast.domain.ring import Ring
from nearcast.wire.control import Ask, Broken, Bye, Generation, Gone, Hello, Marker, OnTopic, Switch, Unsure, Welcome
from nearcast.wire.envelope import END, HEARTBEAT, PLAIN, Envelope, Trail

_SILENT_BEATS = 3
_ANY = "*"  # a discontinuity that is not one broker's


class Attachment:
    """`direct_s`: when something came that was published at this very broker."""

    __slots__ = ("confirmed", "direct_s", "heard_s", "since_s")

    def __init__(self, now: float) -> None:
        self.confirmed = False
        self.since_s = now
        self.heard_s = now
        self.direct_s = now


class Subscriber:
    __slots__ = (
        "_dark",
        "_paths",
        "_settled_epoch",
        "_settled_s",
        "_stays_s",
        "attachments",
        "barrier",
        "client",
        "key",
        "lease",
        "moving",
        "ready",
        "rules",
        "streams",
        "timing",
        "topic",
    )

    def __init__(self, topic: str, key: int, client: str, ring: Ring, *, timing: Timing, rules: Rules = ALL_ON) -> None:
        self.topic = topic
        self.key = key
        self.client = client
        self.timing = timing
        self.rules = rules
        self.lease = Lease(topic, ring, timing, rules)
        self.streams = Streams(topic, timing, rules)
        self.attachments: dict[str, Attachment] = {}
        self.barrier: Barrier | None = None
        self.moving = True
        self.ready = False
        self._paths: dict[tuple[str, str], Inbound] = {}  # (source, through) -> what was seen of it
        self._dark: dict[tuple[str, str], float] = {}  # (broker, why) -> since when; an open discontinuity each
        self._settled_s = -math.inf
        self._settled_epoch = 0
        self._stays_s: dict[int, float] = {}  # epoch that may be alive -> how long its messages may be at a processor

    @property
    def wanted(self) -> tuple[str, ...]:
        return self.lease.route.attach_to(self.key, self.lease.home) if self.lease.route else ()

    @property
    def receiving(self) -> bool:
        """Whether it is attached anywhere. Where that is an old broker, agents forward to it: see `Forwarder`."""
        return any(attachment.confirmed for attachment in self.attachments.values())

    # What agents say

    def welcome(self, message: Welcome, via: str, now: float) -> list[Instruction]:
        if via in self.attachments:
            self.attachments[via].heard_s = now
        lost_before, sources_before = self.lease.lost, self.lease.sources
        out = self._lapsed(now)  # after a sleep an answer may come before the timer that should have noticed
        self._allow_for(message)
        if self.lease.welcome(message):
            out += self._relocate(now)
        elif self.lease.lost != lost_before or self.lease.sources != sources_before:
            self.barrier = None  # it may wait for an agent that is no more
        self._forget_ended_paths()
        out += self._note_lost(now)
        out += self._progress(now)
        out += self._renewed(now)
        return out + self.streams.settle(self._view(), now)

    def rehome(self, broker: str, now: float) -> list[Instruction]:
        """At home there from now on: it moves there as it does when the topic moves, behind a barrier (rule 3)."""
        before = self.wanted
        self.lease.home = broker
        return [*self._relocate(now), *self._progress(now)] if self.wanted != before else []

    def unsure(self, message: Unsure) -> None:
        self.lease.refused(message)

    def generation(self, message: Generation, now: float) -> list[Instruction]:
        if self.barrier is None or message.epoch < self.lease.epoch:
            return []  # an agent that has not been told yet does not know every source: ask again
        self.barrier.grant(message)
        self.barrier.asked_s = max(self.barrier.asked_s, now + message.in_s)  # it is not late before it is launched
        return self._check_barrier(now)

    # Connections

    def attached(self, broker: str, now: float) -> list[Instruction]:
        """The subscription at this broker is confirmed (rule 2)."""
        attachment = self.attachments.get(broker)
        if attachment is None or attachment.confirmed:
            return []
        attachment.confirmed = True
        attachment.since_s = attachment.heard_s = now
        return [self._hello(now, broker), *self._progress(now)]

    def lost(self, broker: str, now: float) -> list[Instruction]:
        attachment = self.attachments.get(broker)
        if attachment is None:
            return []
        out = self._darken(broker, "link", attachment.heard_s, now) if attachment.confirmed else []
        attachment.confirmed = False
        self.barrier = None
        self._forget_paths(broker)
        if broker not in self.wanted:
            del self.attachments[broker]
            out.append(Detach(broker))
        return out + self._progress(now)

    def restored(self, broker: str, now: float) -> list[Instruction]:
        """The connection is back and the library has subscribed again: on a server that may have been left (rule 8)."""
        attachment = self.attachments.get(broker)
        if attachment is None:
            return []
        out = self._light(broker, "link", now)
        attachment.confirmed = True
        if not self.rules.hello_again:
            return out
        attachment.since_s = attachment.heard_s = now
        self.moving, self.barrier = True, None
        return [*out, self._hello(now, broker), *self._progress(now)]

    # What comes in on the topic

    def passes(self, envelope: Envelope, via: str, now: float) -> bool:
        """The common case, kept short: `frame` would deliver it and do nothing else, and no timer changes."""
        if envelope.flags or envelope.trail is not None or not self.streams.passes(envelope, now):
            return False
        attachment = self.attachments.get(via)
        if attachment is not None:
            attachment.heard_s = attachment.direct_s = now
        return True

    def frame(self, envelope: Envelope, via: str, now: float) -> list[Instruction]:
        if self.passes(envelope, via, now):
            return [Deliver(envelope)]
        if envelope.notice is not None and not belongs(envelope, self.topic, via):
            return []
        attachment = self.attachments.get(via)
        if attachment is not None:
            attachment.heard_s = now
        out: list[Instruction] = []
        if envelope.trail is not None and attachment is not None and attachment.confirmed:
            # Unconfirmed, it may be the rest of a subscription that was left, and the count begins with the new one.
            out = self._follow(envelope.trail, via, now, broken=isinstance(envelope.notice, Broken))
        if envelope.notice is not None:
            if attachment is not None and envelope.trail is None and isinstance(envelope.notice, Broken):
                out += self._processor_broken(via, attachment.direct_s, now)
            return out + self._notice(envelope.notice, via, now)
        if attachment is not None and envelope.trail is None:
            attachment.direct_s = now
        if envelope.flags & PLAIN:
            return out if self._heard_elsewhere(envelope, via) else [*out, Deliver(envelope)]
        if envelope.flags & (END | HEARTBEAT):
            ends = bool(envelope.flags & END)
            return out + self.streams.mark(envelope, via, self._view(via), now, ends=ends)
        delivered = self.streams.data(envelope, self._view(via), now)
        return out + delivered if out else delivered

    def _notice(self, notice: OnTopic, via: str, now: float) -> list[Instruction]:
        match notice:
            case Switch(topic, route, sources, floor, lost, addresses):
                never = -math.inf  # a notice to all renews nobody's lease
                told = Welcome(topic, route, sources, floor, lost, 0.0, never, 0, ())
                known = [Learn(addresses)] if addresses else []
                return [*known, *self.welcome(told, via, now)]
            case Marker(source=source):
                out: list[Instruction] = []
                for publisher, first, last, brokers in notice.legs():
                    if source == via or via not in brokers:  # else the publisher sent it to `via` too, by another way
                        out += self.streams.ended(publisher, (first, last), via, self._view(), now)
                if self.barrier is not None:
                    self.barrier.marker(notice, via)
                    out += self._check_barrier(now)
                return out
            case Gone(publisher=publisher):
                return self.streams.gone(publisher)
            case _:
                return []

    def _follow(self, trail: Trail, via: str, now: float, *, broken: bool) -> list[Instruction]:
        """Rule 4: every frame of a path is counted; a hole in the count is a hole in the data."""
        path = self._paths.get((trail.source, via))
        if broken:
            self._paths[trail.source, via] = Inbound(trail, now)
            return self._path_broken(trail.source, path.heard_s if path else self._settled_s, now)
        if path is None:
            self._paths[trail.source, via] = Inbound(trail, now)
            return self._light(trail.source, "path", now)
        heard_s = path.heard_s
        if path.follows(trail, now):
            return self._light(trail.source, "path", now) if self._dark else []
        return self._path_broken(trail.source, heard_s, now)

    def _path_broken(self, source: str, heard_s: float, now: float) -> list[Instruction]:
        if not self.rules.sessions:
            return []
        self.barrier = None  # its markers may have overtaken what is missing: begin again
        out: list[Instruction] = []
        if not self._heard_directly(source, heard_s):
            out += self._darken(source, "path", heard_s, now)
            out += self._light(source, "path", now)
        return out + self._progress(now)

    def _processor_broken(self, via: str, heard_s: float, now: float) -> list[Instruction]:
        """Its agent starts anew, or was cut off: what was at the topic's processor there may be missing."""
        if not self.rules.sessions:
            return []
        return [*self._darken(via, "processor", heard_s, now), *self._light(via, "processor", now)]

    def _allow_for(self, message: Welcome) -> None:
        """Messages of a route with a processor may be there for long, also when a newer route has none."""
        processor = message.route.processor
        if processor is not None:
            self._stays_s[message.route.epoch] = processor.stay_s(self.timing.wait_s)
        if self._stays_s:
            floor = max(message.floor, self.lease.floor)
            self._stays_s = {epoch: stay_s for epoch, stay_s in self._stays_s.items() if epoch >= floor}
        self.streams.slack_s = max(self._stays_s.values(), default=0.0)

    # Moving

    def _relocate(self, now: float) -> list[Instruction]:
        self.moving, self.barrier = True, None
        self.streams.postpone(now)
        out: list[Instruction] = []
        for broker in self.wanted:
            if broker not in self.attachments:
                self.attachments[broker] = Attachment(now)
                out.append(Attach(broker))
                if not self.rules.confirm:
                    out += self.attached(broker, now)
        return out

    def _progress(self, now: float) -> list[Instruction]:
        """Takes the next step of a move, when all that it waits for is there."""
        if not self.moving or self.lease.route is None:
            return []
        wanted = [self.attachments.get(broker) for broker in self.wanted]
        if not all(each is not None and each.confirmed for each in wanted):
            return []
        since_s = max(each.since_s for each in wanted if each is not None)
        if self.lease.confirmed_s < since_s and not self.lease.unsure:
            return []  # an agent must vouch for the route after we were attached, or it may be over by now
        if not self.rules.barrier or not self._needs_barrier():
            return self._finish(now)
        if self.barrier is None:
            self.barrier = Barrier(now)
            return [self._ask_marker(now)]
        return self._check_barrier(now)

    def _ask_marker(self, now: float) -> Say:
        """Asks the agents of the brokers we are attached to in turn: one of them may be gone."""
        assert self.barrier is not None
        through = [*self.wanted, *(broker for broker in self._through() if broker not in self.wanted)]
        broker = through[self.barrier.asks % len(through)]
        self.barrier.asks += 1
        self.barrier.asked_s = now
        return Say(broker, Ask(self.topic, self.client))

    def _needs_barrier(self) -> bool:
        others = any(broker not in self.wanted for broker in self.attachments)
        return others or self._forwarded_to()

    def _forwarded_to(self) -> bool:
        """Whether agents forward on this topic now: it is moving, or homed on several brokers."""
        route = self.lease.route
        return route is not None and (self.lease.floor < route.epoch or route.forwards)

    def _check_barrier(self, now: float) -> list[Instruction]:
        barrier = self.barrier
        if barrier is None or barrier.linger_until_s is not None or not barrier.complete(self._through()):
            return []
        if not self.rules.linger:
            return self._finish(now)
        barrier.linger_until_s = now + self.timing.linger_s
        return []

    def _finish(self, now: float) -> list[Instruction]:
        out: list[Instruction] = []
        for broker in [broker for broker in self.attachments if broker not in self.wanted]:
            del self.attachments[broker]
            self._forget_paths(broker)
            out += [Say(broker, Bye(self.topic, self.client, 0)), Detach(broker)]
        for broker, why in list(self._dark):
            if why == "link" and broker not in self.attachments:
                out += self._light(broker, why, now)
        self.moving, self.barrier = False, None
        self._settled_s, self._settled_epoch = now, self.lease.epoch
        if not self.ready:
            self.ready = True
            out += [Ready(), *self.streams.open(now)]
        out += self._renewed(now)
        return out + self.streams.settle(self._view(), now, afresh=True)

    def _lapsed(self, now: float) -> list[Instruction]:
        if not self._lease_watched() or now < self.lease.confirmed_s + self.timing.lease_s:
            return []
        return self._darken(_ANY, "lease", self.lease.confirmed_s, now)

    def _renewed(self, now: float) -> list[Instruction]:
        """After a time without a lease nothing more is missed from when we are where the route wants us, not before."""
        return self._light(_ANY, "lease", now) if self.lease.usable(now) and not self.moving else []

    def close(self, now: float) -> list[Instruction]:
        out = self.streams.close(self._view(), now)
        for broker, attachment in self.attachments.items():
            if attachment.confirmed:
                out.append(Say(broker, Bye(self.topic, self.client, 0)))
            out.append(Detach(broker))
        self.attachments.clear()
        return out

    # Time

    def wake_s(self) -> float:
        wake_s = min(self.lease.due_s(), self.streams.wake_s(self._patience_s()))
        if self.barrier is not None:
            barrier = self.barrier
            wake_s = min(wake_s, barrier.linger_until_s or barrier.due_s(self.timing.retry_s))
        if self._paths and self._forwarded_to():
            silence_s = _SILENT_BEATS * self.timing.beat_s
            wake_s = min(wake_s, *(path.heard_s + silence_s for path in self._silent_paths()), math.inf)
        if self._lease_watched():
            wake_s = min(wake_s, self.lease.confirmed_s + self.timing.lease_s)
        return wake_s

    def tick(self, now: float) -> list[Instruction]:
        out: list[Instruction] = []
        if now >= self.lease.due_s():
            out.append(self._hello(now))
        barrier = self.barrier
        if barrier is not None and barrier.linger_until_s is not None and now >= barrier.linger_until_s:
            out += self._finish(now)
        elif barrier is not None and barrier.linger_until_s is None and now >= barrier.due_s(self.timing.retry_s):
            out.append(self._ask_marker(now))
        if self._paths and self._forwarded_to():
            out += self._notice_silence(now)
        out += self._lapsed(now)
        return out + self.streams.tick(self._view(), now)

    # What may be missing

    def _silent_paths(self) -> list[Inbound]:
        """Paths that this subscriber depends on and that are not already reported."""
        return [path for (source, _), path in self._paths.items() if self._depends_on(source, path.heard_s)]

    def _depends_on(self, source: str, heard_s: float) -> bool:
        if not self.ready or not self.rules.sessions or (source, "path") in self._dark:
            return False
        return source in self.lease.sources and not self._heard_directly(source, heard_s)

    def _heard_directly(self, source: str, since_s: float) -> bool:
        """Whether we have been attached to the broker itself all the while: then its agent's lag is not ours.

        What was heard at `since_s` may have been under way for long: what is missing may be that much older.
        """
        attachment = self.attachments.get(source)
        return attachment is not None and attachment.confirmed and attachment.since_s <= since_s - self.timing.transit_s

    def _notice_silence(self, now: float) -> list[Instruction]:
        out: list[Instruction] = []
        for (source, _), path in list(self._paths.items()):
            if self._depends_on(source, path.heard_s) and now >= path.heard_s + _SILENT_BEATS * self.timing.beat_s:
                out += self._darken(source, "path", path.heard_s, now)
        return out

    def _lease_watched(self) -> bool:
        return self.ready and self.rules.leases and (_ANY, "lease") not in self._dark

    def _note_lost(self, now: float) -> list[Instruction]:
        """Brokers whose agent the coordinator has given up: nothing is forwarded from there."""
        out: list[Instruction] = []
        for broker in self.lease.lost:
            heard = [path.heard_s for (source, _), path in self._paths.items() if source == broker]
            heard_s = max(heard, default=self._settled_s)
            if self._stays_s and broker in self.attachments:
                heard_s = self.attachments[broker].direct_s
            # What is processed is not heard directly: it comes through the agent.
            if (broker, "agent") not in self._dark and (self._stays_s or not self._heard_directly(broker, heard_s)):
                out += self._darken(broker, "agent", heard_s, now)
        for broker, why in list(self._dark):
            if (why == "agent" and broker not in self.lease.lost) or (
                why == "path" and broker not in self.lease.sources
            ):
                out += self._light(broker, why, now)
        return out

    def _darken(self, broker: str, why: str, heard_s: float, now: float) -> list[Instruction]:
        """Opens a discontinuity: from when the last was heard, less what may have been under way then."""
        if (broker, why) in self._dark or not self.ready:
            return []
        from_s = min(heard_s, now) - self.timing.transit_s - self.streams.slack_s
        self._dark[broker, why] = from_s
        return [Report(Discontinuity(self.topic, broker, from_s, None))]

    def _light(self, broker: str, why: str, now: float) -> list[Instruction]:
        from_s = self._dark.pop((broker, why), None)
        if from_s is None:
            return []
        return [Report(Discontinuity(self.topic, broker, from_s, now))]

    # Small things

    def _view(self, via: str = "") -> View:
        """`via`: where something came from, which may be a broker that was left: it proves nothing of the others."""
        return View(
            settled=not self.moving,
            patience_s=self._patience_s(),
            epoch=self.lease.epoch,
            floor=self.lease.floor,
            through=tuple(broker for broker in self._through() if broker in self.lease.sources),
            alone=not self.moving and len(self.attachments) == 1 and via in self.attachments,
        )

    def _patience_s(self) -> float:
        """How long a stranger's first leg may wait: longer while we move, and for ever before `Ready`."""
        if not self.moving:
            return self.timing.patience_s + self.streams.slack_s
        return self.timing.lease_s + self.streams.slack_s if self.ready else math.inf

    def _through(self) -> list[str]:
        return [broker for broker, attachment in self.attachments.items() if attachment.confirmed]

    def _is_attached(self, broker: str) -> bool:
        attachment = self.attachments.get(broker)
        return attachment is not None and attachment.confirmed

    def _heard_elsewhere(self, envelope: Envelope, via: str) -> bool:
        """A plain client's message has no number to know a repeat by; a copy from a broker we listen on is one."""
        trail = envelope.trail
        return trail is not None and any(broker != via and self._is_attached(broker) for broker in trail.visited)

    def _forget_paths(self, via: str) -> None:
        for key in [key for key in self._paths if key[1] == via]:
            del self._paths[key]

    def _forget_ended_paths(self) -> None:
        """Paths end with their transition; if one is opened again it is another session, and nothing is broken."""
        forwarded = self._forwarded_to()
        for key in [key for key in self._paths if not forwarded or key[0] not in self.lease.sources]:
            del self._paths[key]

    def _hello(self, now: float, broker: str | None = None) -> Say:
        if broker is None:
            broker = self.lease.ask(tuple(self._through()), now)
        else:
            self.lease.asked_s = now  # its agent may not know the route yet: then the question is asked again
        attached = self._is_attached(broker)
        # While we move we need what is forwarded to where we were: agents must not take us for one who has arrived.
        epoch = self._settled_epoch if self.ready and self.moving else self.lease.epoch
        home = self.lease.home or ""
        return Say(broker, Hello(self.topic, self.client, 0, epoch, attached, now, self.lease.ring.version, home))
