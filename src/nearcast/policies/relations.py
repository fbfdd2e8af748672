"""Which clients have most in common (RELOC, section 6): RELOC's matrix Z, factorised, and the strongest of each.

z_mm' is the number of topics that clients m and m' both publish or subscribe to: Z = B B^T, where B has a row per
client and a 1 for each of its topics. So the factors of Z are those of B: with its first right singular vectors V, Z is
nearly F F^T for F = B V. Factors of Z itself would be the same, at the cost of a matrix of clients by clients.

A client is related to those it shares a topic with, by F_m F_m'; equally strong ones by name. Without the factors
nearly all of a client's relations would be equally strong: they share one topic. Strengths are compared to nine digits,
so that another order of additions (Spark's) finds the same ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nearcast.domain.area import Area
from nearcast.domain.places import Floats, Ints

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix  # type: ignore[import-untyped]  # it has no types

NOBODY = -1
DIGITS = 9

_PAIRS_AT_ONCE = 1 << 23


def memberships(area: Area) -> csr_matrix:
    """B: clients by topics."""
    from scipy.sparse import csr_matrix  # noqa: PLC0415  # an extra

    shape = (len(area.clients), len(area.spool))
    return csr_matrix((np.ones(len(area.topic)), area.topic, area.first), shape=shape)


def factors_of(area: Area, rank: int) -> Floats:
    """F: a row per client, at most `rank` columns."""
    from scipy.sparse.linalg import svds  # type: ignore[import-untyped]  # noqa: PLC0415  # an extra; untyped

    members = memberships(area)
    if min(members.shape) <= rank + 1:
        _, strength, across = np.linalg.svd(members.toarray(), full_matrices=False)
        return np.asarray(members @ across[strength > 0.0][:rank].T)
    start = np.random.default_rng(0).standard_normal(min(members.shape))
    _, _, across = svds(members, k=rank, v0=start, solver="arpack")
    return np.asarray(members @ across[::-1].T)


def strongest(area: Area, factors: Floats, most: int) -> Ints:
    """The `most` strongest relations of every client, the strongest first; NOBODY where there are no more."""
    members = memberships(area)
    across = members.T.tocsr()
    found = np.full((len(area.clients), most), NOBODY, dtype=np.int64)
    if not most:
        return found
    # As many rows at a time as have about so many pairs.
    pairs = np.bincount(area.owner, np.diff(across.indptr)[area.topic], len(area.clients))
    part = (np.cumsum(pairs) // _PAIRS_AT_ONCE).astype(np.int64)
    for number in range(int(part[-1]) + 1 if len(part) else 0):
        start, stop = np.searchsorted(part, (number, number + 1))
        together = (members[start:stop] @ across).tocoo()
        client, other = together.row + start, together.col
        client, other = client[client != other], other[client != other]
        strength = np.round(np.einsum("ij,ij->i", factors[client], factors[other]), DIGITS)
        order = np.lexsort((other, -strength, client))
        client, other = client[order], other[order]
        rank = np.arange(len(client)) - np.searchsorted(client, client)
        kept = rank < most
        found[client[kept], rank[kept]] = other[kept]
    return found


def relations_of(area: Area, most: int, rank: int) -> Ints:
    """Both steps."""
    if not most or not len(area.topic):
        return np.full((len(area.clients), most), NOBODY, dtype=np.int64)
    return strongest(area, factors_of(area, rank), most)
