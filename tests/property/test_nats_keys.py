"""Keys as subjects of a bucket: nothing is lost, and nothing means anything to the server."""

import re

from hypothesis import given
from hypothesis import strategies as st

from nearcast.store.nats_keys import below, decoded, encoded

KEYS = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("./=:*> "), max_size=60)
_BUCKET_KEY = re.compile(r"[-/_=a-zA-Z0-9]+(\.[-/_=a-zA-Z0-9]+)*")


@given(KEYS)
def test_a_key_comes_back_and_is_one_that_every_client_of_a_bucket_takes(key: str) -> None:
    name = encoded(key)
    assert _BUCKET_KEY.fullmatch(name)
    assert decoded(name) == key


@given(KEYS, KEYS)
def test_what_begins_with_a_prefix_is_below_it(prefix: str, rest: str) -> None:
    pattern = below(prefix)
    assert encoded(prefix + rest).startswith(pattern.removesuffix(">"))


@given(st.text(st.sampled_from("aA3./=F"), max_size=12))
def test_two_names_never_mean_one_key(name: str) -> None:
    key = decoded(name)
    assert key is None or encoded(key) == name
