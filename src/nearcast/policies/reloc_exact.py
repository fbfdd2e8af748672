"""Policy `reloc-exact`: the homes with the least Y there can be (RELOC, equations 3 to 6), for small areas.

A program of OR-Tools, in whole numbers: theta is in parts of 4096, and a time in parts of a hundred thousandth of the
way to the cloud and back (finer ones it could not prove). What it finds is then searched from on with the exact model,
and tests compare it with trying everything. Storage and load of a server are sums of spools, so theta is looked up by
them: spools must be whole numbers, and not too many.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nearcast.domain.area import Area
from nearcast.domain.errors import ConfigError
from nearcast.domain.places import Ints
from nearcast.predict.homed import Pattern

MOST_CLIENTS, MOST_SERVERS, MOST_SPOOLED = 24, 6, 20_000
_ONE = 1 << 12
_TIMES = 100_000


def exact(area: Area, start: Ints | None = None, most_s: float = 60.0) -> Ints:
    """`start`: homes to begin with. ConfigError for an area that is too large, or that took longer than `most_s`."""
    from ortools.sat.python import cp_model  # noqa: PLC0415  # an extra

    _must_be_small(area)
    if not area.clients:
        return np.zeros(0, dtype=np.int64)
    model, servers = cp_model.CpModel(), range(len(area.servers))
    at = [[model.new_bool_var("") for _ in servers] for _ in area.clients]
    for each in at:
        model.add_exactly_one(each)
    theta = [_theta(model, area, at, server) for server in servers]
    per_s = _TIMES / max(2.0 * area.cloud_s, float(area.between_s().max()), 1e-12)
    between = np.rint(area.between_s() * per_s).astype(np.int64)
    cloud = round(2.0 * area.cloud_s * per_s)
    pattern = Pattern.of(area)
    weight = pattern.weights(len(area.clients), len(area.spool))
    way = area.at.to(area.servers)
    rounded = np.rint(weight[:, None] * way * per_s).astype(np.int64)
    costs = [_ONE * int(rounded[who, there]) * at[who][there] for who in range(len(at)) for there in servers]
    for client in np.unique(pattern.client).tolist():
        # What all its publications cost between homes, in each server's case: by the cloud, or the ways to all hearers.
        mine = pattern.client == client
        hearers: dict[int, float] = {}
        for topic, share in zip(pattern.topic[mine].tolist(), pattern.share[mine].tolist(), strict=True):
            for who in pattern.hearer[pattern.heard == topic].tolist():
                if who != client:
                    hearers[who] = hearers.get(who, 0.0) + share
        by_cloud = int(mine.sum()) * cloud
        for server in servers:
            saved = [
                (round(share * (cloud - int(between[server, other]))), at[who][other])
                for who, share in hearers.items()
                for other in servers
            ]
            most = sum(max(0, round(share * cloud)) for share in hearers.values()) + len(saved)
            least = sum(min(0, amount) for amount, _ in saved)
            kept = model.new_int_var(least, most, "")
            model.add(kept == sum(amount * each for amount, each in saved))
            bound = _ONE * max(most, -least)
            product = model.new_int_var(-bound, bound, "")
            model.add_multiplication_equality(product, [kept, theta[server]])
            cost = model.new_int_var(-bound, _ONE * by_cloud + bound, "")
            model.add(cost == _ONE * by_cloud - product).only_enforce_if(at[client][server])
            model.add(cost == 0).only_enforce_if(at[client][server].negated())
            costs.append(cost)
    model.minimize(sum(costs))
    if start is not None:
        for client, home in enumerate(start.tolist()):
            for server in servers:
                model.add_hint(at[client][server], int(server == home))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 0
    solver.parameters.max_deterministic_time = most_s
    status = solver.solve(model)
    if status != cp_model.OPTIMAL:
        raise ConfigError(
            f"reloc-exact: no proof within {most_s:g} s of work ({solver.status_name(status)}); use reloc"
        )
    return np.array(
        [next(there for there in servers if solver.boolean_value(each[there])) for each in at], dtype=np.int64
    )


def _theta(model: Any, area: Area, at: list[list[Any]], server: int) -> Any:
    """A variable for what the server keeps, by what it would have to spool and look at (equation 2)."""
    publishing = list(zip(area.owner[area.publishes].tolist(), area.topic[area.publishes].tolist(), strict=True))
    spool = area.spool.astype(np.int64).tolist()
    there = {}
    for topic in sorted({topic for _, topic in publishing}):
        there[topic] = model.new_bool_var("")
        model.add_max_equality(there[topic], [at[client][server] for client, each in publishing if each == topic])
    both = (
        (sum(spool[topic] * each for topic, each in there.items()), area.storage[server]),
        (sum(spool[topic] * at[client][server] for client, topic in publishing), area.compute[server]),
    )
    kept = []
    for used, limit in both:
        most = int(area.spool[area.topic[area.publishes]].sum())
        amount = model.new_int_var(0, most, "")
        model.add(amount == used)
        parts = np.rint(_ONE * np.minimum(1.0, limit / np.maximum(np.arange(most + 1), 1e-9))).astype(np.int64)
        found = model.new_int_var(int(parts.min()), _ONE, "")
        model.add_element(amount, parts.tolist(), found)
        kept.append(found)
    theta = model.new_int_var(0, _ONE, "")
    model.add_min_equality(theta, kept)
    return theta


def _must_be_small(area: Area) -> None:
    size = f"{len(area.clients)} clients and {len(area.servers)} servers"
    if len(area.clients) > MOST_CLIENTS or len(area.servers) > MOST_SERVERS:
        raise ConfigError(f"reloc-exact: {size} are too many; at most {MOST_CLIENTS} and {MOST_SERVERS}, or use reloc")
    if not (area.spool == np.rint(area.spool)).all() or area.spool[area.topic[area.publishes]].sum() > MOST_SPOOLED:
        raise ConfigError(f"reloc-exact: spools must be whole numbers, together at most {MOST_SPOOLED}; use reloc")
