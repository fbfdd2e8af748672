"""An agent that starts anew in the middle of a move knows none of its clients yet."""

from nearcast.control.forwarder import Forwarder
from nearcast.control.instructions import Answer
from nearcast.control.timing import Timing
from nearcast.domain.route import Route, Strategy
from nearcast.wire.control import Prepare, Quiet, Tell

TIMING = Timing()
OLD = Route(1, Strategy.SINGLE, ("H0",))
NEW = Route(2, Strategy.SINGLE, ("H1",))


def quiet(forwarder: Forwarder, now: float) -> bool:
    said = forwarder.tick(now)
    return any(isinstance(each, Answer) and isinstance(each.message, Quiet) for each in said)


def test_an_agent_that_restarted_does_not_take_its_ignorance_for_quiet() -> None:
    forwarder = Forwarder("t", "H0", 2, OLD, timing=TIMING)
    forwarder.prepare(Prepare("t", 1, 2, (OLD, NEW), 2, ()), 100.0, fresh=True)
    forwarder.subscribed(100.0)
    forwarder.tell(Tell("t", 1, 2, ()), 100.0)
    assert not quiet(forwarder, 100.0 + TIMING.quiet_s - 0.1)
    assert quiet(forwarder, 100.0 + TIMING.quiet_s)
