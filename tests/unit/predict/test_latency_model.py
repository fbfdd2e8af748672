import numpy as np
import pytest

from nearcast.domain.errors import ModelError
from nearcast.predict.features import INPUTS
from nearcast.predict.latency_model import Fit, LatencyModel, Network, Polynomial, Scale, model_from_json
from nearcast.predict.queueing import Processors

PLAIN = Scale((0.0,) * 6, (1.0,) * 6)


def model() -> LatencyModel:
    """Alone: the interval and ten times the rate. Two: what exp makes of the rectified interval of the other one."""
    alone = Fit(1, "isolated", Scale((0.0, 0.0), (1.0, 1.0)), Polynomial(1, (0.0, 1.0, 10.0)), logarithm=False)
    layers = (((0.0,), (0.0,), (0.0,), (0.1,), (0.0,), (0.0,)), ((1.0,),))
    pair = Fit(2, "colocated", PLAIN, Network(layers, ((0.0,), (1.0,))))
    return LatencyModel("by hand", Processors(2), (alone, pair))


def test_the_six_inputs_are_those_of_the_paper() -> None:
    told = INPUTS["colocated"](np.array([[10.0, 20.0, 30.0]]), np.array([[1.0, 2.0, 3.0]]), Processors())
    assert told[0].tolist() == [
        [10.0, 1.0, 10.0, 50.0, 5.0, 130.0],
        [20.0, 2.0, 40.0, 40.0, 4.0, 100.0],
        [30.0, 3.0, 90.0, 30.0, 3.0, 50.0],
    ]


def test_a_model_by_hand_gives_what_it_should() -> None:
    assert model().p90_ms(np.array([[20.0]]), np.array([[3.0]])).tolist() == [[50.0]]
    found = model().p90_ms(np.array([[20.0, 10.0]]), np.array([[3.0, 3.0]]))
    assert found[0] == pytest.approx(np.exp([2.0, 3.0]), rel=1e-6)


def test_a_model_is_the_same_after_it_was_written_and_read() -> None:
    read = model_from_json(model().to_json(), "m.json")
    assert read == model()
    assert read.processors == Processors(2)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"{", "m.json"),
        (b"\xff\xfe", "m.json"),
        (b'{"name": "x", "processors": {}, "fits": [], "format": "nearcast.latency-model/2"}', "latency-model/2"),
        (model().to_json().replace(b'"topics": 2', b'"topics": 3'), "one for each number"),
        (model().to_json().replace(b'"kind": "network"', b'"kind": "oracle"'), "oracle"),
        (model().to_json().replace(b'"unit": [', b'"unit": [0.0,', 1), "units"),
    ],
)
def test_what_is_no_model_is_refused_with_where_it_was_found(text: bytes, says: str) -> None:
    with pytest.raises(ModelError, match=says):
        model_from_json(text, "m.json")


def test_a_network_whose_layers_do_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="layers"):
        Network((((1.0, 2.0),), ((1.0,),)), ((0.0, 0.0), (0.0,)))
    with pytest.raises(ValueError, match="rows"):
        Network((((1.0, 2.0),),), ((0.0,),))
