"""What agents tell the control plane, on real servers."""

from nearcast.lab.experiment import silent
from nearcast.lab.experiments.epulsar_monitoring import every, told
from nearcast.lab.live.monitored import watch


def test_reports_are_of_one_size_however_many_clients_a_topic_has() -> None:
    many, few = watch("nats", [3], [2, 10], 1, silent)
    assert [(each.topics, each.clients) for each in (many, few)] == [(3, 10), (3, 2)]
    assert few.place_bytes_per_s > 50
    assert told(many) < 1.1 * told(few)
    assert every(many) > 1.1 * every(few)
    assert many.every_bytes_per_s > 3 * few.every_bytes_per_s
