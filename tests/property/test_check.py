"""The checker against an oracle: each rule as a sentence over the whole record, with no index."""

from hypothesis import given, settings
from hypothesis import strategies as st

from nearcast.domain.report import Discontinuity, Gap
from nearcast.sim.check import CheckResult, Finding, check
from nearcast.sim.history import Event, History

GRACE_S = 1.0


def delivered_to(events: list[Event], number: int) -> list[tuple[int, float, int, int]]:
    return [(at, e[1], e[3], e[4]) for at, e in enumerate(events) if e[0] == "delivered" and e[2] == number]


def gap_covers(events: list[Event], number: int, topic: str, publisher: int, seq: int) -> bool:
    for at, event in enumerate(events):
        if event[0] == "gap" and event[2:5] == (number, topic, publisher):
            first, last = event[5], event[6]
            first = -1 if first is None else first
            if last is None:
                back = [s for a, _, p, s in delivered_to(events, number) if a > at and p == publisher and s >= first]
                last = back[0] - 1 if back else seq
            if first <= seq <= last:
                return True
    return False


def discontinuity_covers(events: list[Event], number: int, topic: str, begun_s: float, returned_s: float) -> bool:
    told = [e for e in events if e[0] == "discontinuity" and e[2:4] == (number, topic)]
    for at, event in enumerate(told):
        replaced = any(later[4:6] == event[4:6] for later in told[at + 1 :])
        to_s = float("inf") if event[6] is None else event[6]
        if not replaced and event[5] <= returned_s and begun_s <= to_s:
            return True
    return False


def longest_pause_s(arrivals: list[tuple[float, float]], subscribed_s: float, missing_since_s: list[float]) -> float:
    pauses_s = [0.0]
    for at, (time_s, _) in enumerate(arrivals):
        before_s = arrivals[at - 1][0] if at else subscribed_s
        pauses_s += [time_s - max(before_s, begun_s, subscribed_s) for _, begun_s in arrivals[at:]]
    for begun_s in missing_since_s:
        pauses_s += [time_s - begun_s for time_s, _ in arrivals if time_s > begun_s][:1]
    return max(pauses_s)


def oracle(history: History, grace_s: float) -> CheckResult:
    events = history.events
    begun = {(e[3], e[2], e[4]): (at, e[1]) for at, e in enumerate(events) if e[0] == "publish"}
    returned_s = {(e[3], e[2], e[4]): e[1] for e in events if e[0] == "published"}
    numbers = sorted({e[2] for e in events if e[0] in {"subscribed", "delivered", "gap", "discontinuity"}})
    lost: list[Finding] = []
    covered: list[Finding] = []
    duplicated, reordered, invented, pauses_s = [], [], [], [0.0]
    for number in numbers:
        came = delivered_to(events, number)
        arrivals = []
        subscribed = [(at, e) for at, e in enumerate(events) if e[0] == "subscribed" and e[2] == number]
        left_s = [e[1] for e in events if e[0] in {"unsubscribe", "crashed"} and e[2] == number]
        for position, (_, time_s, publisher, seq) in enumerate(came):
            earlier = [s for _, _, p, s in came[:position] if p == publisher]
            if seq in earlier:
                duplicated.append(Finding(number, publisher, seq))
                continue
            if any(s > seq for s in earlier):
                reordered.append(Finding(number, publisher, seq))
            if subscribed and (subscribed[0][1][3], publisher, seq) in begun:
                arrivals.append((time_s, begun[subscribed[0][1][3], publisher, seq][1]))
            elif subscribed:
                invented.append(Finding(number, publisher, seq))
        if not subscribed:
            continue
        subscribed_at, subscription = subscribed[0]
        missing_since_s = []
        for (topic, publisher, seq), (at, begun_s) in begun.items():
            done_s = returned_s.get((topic, publisher, seq))
            if topic != subscription[3] or at < subscribed_at or done_s is None:
                continue
            got = [s for _, _, p, s in came if p == publisher]
            on_its_way = bool(left_s) and done_s > left_s[0] - grace_s and all(s < seq for s in got)
            if seq in got or on_its_way:
                continue
            told = gap_covers(events, number, topic, publisher, seq) or discontinuity_covers(
                events, number, topic, begun_s, done_s
            )
            (covered if told else lost).append(Finding(number, publisher, seq))
            missing_since_s.append(begun_s)
        pauses_s.append(longest_pause_s(arrivals, subscription[1], missing_since_s))
    return CheckResult(
        published=len(returned_s),
        delivered=sum(e[0] == "delivered" for e in events),
        unsequenced=sum(e[0] == "unsequenced" for e in events),
        lost=tuple(sorted(lost)),
        covered=tuple(sorted(covered)),
        duplicated=tuple(sorted(duplicated)),
        reordered=tuple(sorted(reordered)),
        invented=tuple(sorted(invented)),
        gaps=sum(e[0] == "gap" for e in events),
        discontinuities=len({(e[2], *e[3:6]) for e in events if e[0] == "discontinuity"}),
        longest_pause_s=max(pauses_s),
    )


# Few values, and the first more often than the others, so that steps meet.
TOPICS = st.sampled_from(["plaza", "plaza", "plaza", "market"])
NUMBERS = st.sampled_from([0, 0, 1])
PUBLISHERS = st.sampled_from([7, 7, 7, 8])
SEQS = st.integers(0, 4)
MAYBE_SEQS = st.none() | SEQS
STEPS = st.one_of(
    st.tuples(st.just("publish"), PUBLISHERS, TOPICS, st.sampled_from(["at once", "later", "never"])),
    st.tuples(st.just("publish"), PUBLISHERS, TOPICS, st.just("at once")),
    st.tuples(st.just("return"), st.integers(0, 3)),
    st.tuples(st.just("subscribe"), NUMBERS, TOPICS),
    st.tuples(st.just("deliver"), NUMBERS, PUBLISHERS, SEQS),
    st.tuples(st.just("deliver next"), NUMBERS, PUBLISHERS),
    st.tuples(st.just("leave"), NUMBERS),
    st.tuples(st.just("crash"), NUMBERS),
    st.tuples(st.just("gap"), NUMBERS, TOPICS, PUBLISHERS, MAYBE_SEQS, MAYBE_SEQS),
    st.tuples(st.just("discontinuity"), NUMBERS, TOPICS, st.sampled_from(["b0", "b1"]), SEQS, MAYBE_SEQS),
    st.tuples(st.just("unsequenced"), NUMBERS),
    st.tuples(st.just("fault")),
)


def play(script: list[tuple[tuple[object, ...], float]]) -> History:
    """A history in which each step that makes sense happened, each some time after the one before."""
    history, now_s = History(), 0.0
    next_seq: dict[tuple[int, str], int] = {}
    next_delivery: dict[tuple[int, int], int] = {}
    under_way: list[tuple[int, str, int]] = []
    topics: dict[int, str] = {}
    for step, wait_s in script:
        now_s += wait_s
        match step:
            case "publish", int(publisher), str(topic), returns:
                seq = next_seq.get((publisher, topic), 0)
                next_seq[publisher, topic] = seq + 1
                history.publish_begun(now_s, publisher, topic, seq)
                if returns == "at once":
                    history.publish_returned(now_s, publisher, topic, seq)
                elif returns == "later":
                    under_way.append((publisher, topic, seq))
            case "return", int(which) if which < len(under_way):
                history.publish_returned(now_s, *under_way.pop(which))
            case "subscribe", int(number), str(topic) if number not in topics:
                topics[number] = topic
                history.subscribe_returned(now_s, number, topic)
            case "deliver", int(number), int(publisher), int(seq):
                history.delivered(now_s, number, publisher, seq)
            case "deliver next", int(number), int(publisher):
                seq = next_delivery.get((number, publisher), 0)
                next_delivery[number, publisher] = seq + 1
                history.delivered(now_s, number, publisher, seq)
            case "leave", int(number):
                history.unsubscribe_begun(now_s, number)
            case "crash", int(number):
                history.crashed(now_s, number)
            case "gap", int(number), str(topic), int(publisher), (int() | None) as first, (int() | None) as last:
                history.reported(now_s, number, Gap(topic, publisher, first, last))
            case "discontinuity", int(number), str(topic), str(broker), int(from_s), (int() | None) as to_s:
                history.reported(now_s, number, Discontinuity(topic, broker, from_s, to_s))
            case "unsequenced", int(number):
                history.unsequenced_delivered(now_s, number)
            case ("fault",):
                history.fault(now_s, "something breaks")
    history.finished(now_s)
    return history


@settings(max_examples=200)
@given(st.lists(st.tuples(STEPS, st.sampled_from([0.0, 0.25, 0.5, 1.0])), min_size=25, max_size=80))
def test_the_checker_agrees_with_the_rules_read_one_by_one(script: list[tuple[tuple[object, ...], float]]) -> None:
    history = play(script)
    assert check(history, grace_s=GRACE_S) == oracle(history, GRACE_S)
