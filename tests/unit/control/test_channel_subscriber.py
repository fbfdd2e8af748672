"""The client's side of a subscription to a channel: what is taken, what waits, what is asked for."""

from nearcast.control.channel_subscriber import Begun, ChannelSubscriber, Miss, Over, Take
from nearcast.control.instructions import Attach, Detach, Instruction, Say
from nearcast.control.timing import Timing
from nearcast.domain.channel import Subscription
from nearcast.wire.channels import Follow, Following, Notice, Refusal, Result, Unfollow

FIRES = Subscription("fires", (("city", "ulm"),))
TIMING = Timing()


def following(after: int, asked_s: float = 0.0, said: int | None = None, lease_s: float = TIMING.absent_s) -> Following:
    return Following(FIRES.key, after, said, asked_s, lease_s)


def notice(execution: int, previous: int, floor: int = 0) -> Notice:
    return Notice(FIRES.key, Result(execution, previous, b"[]", floor))


def mark(execution: int, previous: int, floor: int = 0) -> Notice:
    return Notice(FIRES.key, Result(execution, previous, b"", floor), 0, 0)


def begun(after: int | None = None, position: int = 10) -> ChannelSubscriber:
    machine = ChannelSubscriber(FIRES, "c", ("b1", "b2"), timing=TIMING, after=after)
    assert machine.start(0.0) == [Attach("b1")]
    machine.attached("b1", 0.0)
    assert Begun(position) in machine.following(following(position), "b1", 0.0)
    return machine


def taken(instructions: list[Instruction]) -> list[int]:
    return [each.result.execution for each in instructions if isinstance(each, Take)]


def asked(instructions: list[Instruction]) -> list[tuple[str, int | None]]:
    says = [each for each in instructions if isinstance(each, Say) and isinstance(each.message, Follow)]
    return [(each.broker, each.message.wishes[0].after) for each in says if isinstance(each.message, Follow)]


def test_who_is_new_begins_where_its_agent_says() -> None:
    machine = begun()
    assert machine.position == 10
    assert taken(machine.notice(notice(12, 7), 1.0)) == [12]
    assert machine.position == 12


def test_what_came_before_or_twice_is_dropped() -> None:
    machine = begun()
    assert taken(machine.notice(notice(12, 7), 1.0)) == [12]
    assert machine.notice(notice(12, 7), 1.0) == []
    assert machine.notice(notice(9, 7), 1.0) == []


def test_one_that_comes_too_early_waits_and_what_is_missing_is_asked_for_once() -> None:
    machine = begun()
    assert asked(machine.notice(notice(15, 13), 1.0)) == [("b1", 10)]
    assert machine.notice(notice(16, 15), 1.1) == [], "not again so soon"
    assert taken(machine.notice(notice(13, 7), 1.2)) == [13, 15, 16]


def test_a_mark_says_that_there_was_nothing() -> None:
    machine = begun()
    assert machine.notice(mark(14, 10), 1.0) == []
    assert machine.position == 14


def test_a_mark_that_does_not_fit_yet_holds_up_nothing() -> None:
    machine = begun()
    machine.notice(mark(14, 13), 1.0)
    assert taken(machine.notice(notice(15, 9), 1.1)) == [15]


def test_an_answer_says_that_there_was_nothing_only_after_what_it_was_asked_about() -> None:
    machine = begun()
    machine.following(following(15), "b1", 1.0)
    assert machine.position == 10, "it answers a question from before the first answer came"
    machine.following(following(15, said=10), "b1", 2.0)
    assert machine.position == 15


def test_what_is_kept_nowhere_is_told_and_then_it_goes_on() -> None:
    machine = begun(after=3, position=3)
    told = machine.notice(notice(15, 12, floor=12), 1.0)
    assert told[:2] == [Miss(3, 12), Take(Result(15, 12, b"[]", 12))]


def test_a_floor_below_which_it_had_nothing_is_not_a_loss() -> None:
    machine = begun(after=3, position=3)
    assert taken(machine.notice(notice(15, 2, floor=12), 1.0)) == [15]


def test_one_that_waits_for_what_is_kept_no_more_does_not_wait_for_ever() -> None:
    """It came before its channel was made anew; what it waits for did not, and nobody has it now."""
    machine = begun()
    assert taken(machine.notice(notice(14, 12), 1.0)) == []
    out = machine.notice(notice(102, 100, floor=100), 2.0)
    assert [each for each in out if isinstance(each, Miss)] == [Miss(10, 12), Miss(14, 100)]
    assert taken(out) == [14, 102]


def test_it_leaves_its_old_home_when_it_has_arrived_at_the_new_one() -> None:
    machine = begun()
    assert machine.rehome("b2", 1.0) == [Attach("b2")]
    assert asked(machine.attached("b2", 1.1)) == [("b2", 10)]
    assert taken(machine.notice(notice(11, 7), 1.2)) == [11], "from the old one, meanwhile"
    left = machine.following(following(10, 1.1), "b2", 1.3)
    assert left == [Say("b1", Unfollow("c", (FIRES.key,), 1.3, over=False)), Detach("b1")]


def test_an_agent_that_does_not_answer_is_asked_again_and_then_another() -> None:
    machine = ChannelSubscriber(FIRES, "c", ("b1", "b2"), timing=TIMING)
    machine.start(0.0)
    machine.attached("b1", 0.0)
    assert asked(machine.tick(1.0)) == [("b1", None)]
    assert machine.tick(1.5) == []
    assert Attach("b2") in machine.tick(10.0)


def test_who_is_not_answered_asks_ever_more_seldom() -> None:
    machine = ChannelSubscriber(FIRES, "c", ("b1",), timing=TIMING)
    machine.start(0.0)
    machine.attached("b1", 0.0)
    times = []
    for _ in range(5):
        times.append(machine.wake_s())
        machine.tick(machine.wake_s())
    assert times == [1.0, 3.0, 7.0, 12.0, 17.0]
    machine.following(following(10, 17.0), "b1", 17.5)
    machine.tick(22.0)
    assert machine.wake_s() == 23.0, "once it was answered, as soon as at first"


def test_an_answer_that_is_late_is_an_answer() -> None:
    machine = ChannelSubscriber(FIRES, "c", ("b1",), timing=TIMING)
    machine.start(0.0)
    machine.attached("b1", 0.0)
    machine.tick(1.0)
    machine.following(following(10, 0.0), "b1", 1.5)
    assert machine.wake_s() == 1.0 + TIMING.follow_s, "to what was asked first; it is not asked a third time"


def test_only_who_knows_of_nothing_that_is_missing_just_renews() -> None:
    def renews(instructions: list[Instruction]) -> list[bool]:
        messages = [each.message for each in instructions if isinstance(each, Say)]
        return [each.wishes[0].renews for each in messages if isinstance(each, Follow)]

    machine = begun()
    assert renews(machine.tick(TIMING.follow_s)) == [True]
    assert renews(machine.tick(TIMING.follow_s + TIMING.retry_s)) == [True], "the same question again"
    machine.lost("b1", 7.0)
    assert renews(machine.restored("b1", 8.0)) == [False], "what was published meanwhile did not come"
    assert renews(machine.tick(8.0 + TIMING.retry_s)) == [False], "the same question again"
    machine.following(following(10, 9.0), "b1", 9.1)
    assert renews(machine.notice(notice(15, 13), 9.2)) == [False]
    machine.following(following(10, 9.2), "b1", 9.3)
    assert renews(machine.tick(9.2 + TIMING.follow_s)) == [False], "it still waits for what is missing"


def test_one_whose_link_is_down_is_left_sooner() -> None:
    machine = begun()
    machine.lost("b1", 1.0)
    assert machine.wake_s() == 1.0 + TIMING.patience_s
    assert not any(isinstance(each, Attach) for each in machine.tick(2.0))
    assert Attach("b2") in machine.tick(1.0 + TIMING.patience_s)


def test_where_many_follow_it_renews_seldom_and_is_as_patient() -> None:
    machine = begun()
    machine.tick(5.0)
    machine.following(following(10, 5.0, said=10, lease_s=400.0), "b1", 5.0)
    assert machine.wake_s() == 105.0
    assert asked(machine.tick(105.0)) == [("b1", 10)], "that it was silent itself is no reason to go elsewhere"
    assert Attach("b2") in machine.tick(110.0), "that it is not answered is one"


def test_one_that_renews_seldom_leaves_as_soon_when_its_link_is_down() -> None:
    machine = begun()
    machine.tick(5.0)
    machine.following(following(10, 5.0, said=10, lease_s=400.0), "b1", 5.0)
    machine.lost("b1", 50.0)
    assert machine.wake_s() == 50.0 + TIMING.patience_s
    assert not any(isinstance(each, Attach) for each in machine.tick(51.0))
    assert Attach("b2") in machine.tick(machine.wake_s())


def test_it_says_every_few_seconds_how_far_it_is() -> None:
    machine = begun()
    machine.notice(notice(12, 7), 1.0)
    assert asked(machine.tick(machine.wake_s())) == [("b1", 12)]


def test_what_finds_no_room_is_asked_for_when_there_is_some() -> None:
    machine = begun()
    machine.full = True
    assert machine.notice(notice(12, 7), 1.0) == []
    assert asked(machine.room(2.0)) == [("b1", 10)]
    assert taken(machine.notice(notice(12, 7), 2.1)) == [12]


def test_a_refusal_ends_it_with_the_reason() -> None:
    machine = begun()
    assert machine.refused(Refusal(FIRES.key, "dropped"), "b1", 1.0)[-1] == Over("dropped")
    assert machine.notice(notice(12, 7), 1.0) == []
