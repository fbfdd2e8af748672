"""What an agent tells clients of brokers whose own agent is lost."""

from nearcast.control.forwarder import Forwarder
from nearcast.control.timing import Timing
from nearcast.domain.route import Route, Strategy
from nearcast.wire.control import Prepare, Release, Tell

OLD = Route(1, Strategy.SINGLE, ("H0",))
NEW = Route(2, Strategy.SINGLE, ("H1",))


def draining() -> Forwarder:
    """At H1, told of epoch 2 while the agents of H0, the old broker, and H2, which has no part in it, are lost."""
    forwarder = Forwarder("t", "H1", 1, OLD, timing=Timing())
    forwarder.prepare(Prepare("t", 1, 2, (OLD, NEW), 1, ("H0", "H2")), 0.0, fresh=True)
    forwarder.subscribed(0.0)
    forwarder.tell(Tell("t", 1, 2, ("H0", "H2")), 0.0)
    return forwarder


def test_clients_hear_of_lost_brokers_that_the_topic_still_needs_and_of_no_others() -> None:
    assert draining().welcome(0.0, 0).lost == ("H0",)


def test_a_broker_that_was_released_is_no_loss() -> None:
    forwarder = draining()
    forwarder.release(Release("t", 1, 2))
    assert forwarder.welcome(0.0, 0).lost == ()
