"""Every policy by its name."""

from collections.abc import Callable

from nearcast.domain.errors import ConfigError
from nearcast.domain.plan import Plan
from nearcast.domain.snapshot import Snapshot
from nearcast.policies import (
    area_homes,
    bad,
    bad_groups,
    dynamoth,
    epulsar,
    hash,  # noqa: A004  # the policy is called so; nothing here hashes
    ktcp,
)
from nearcast.policies.settings import Settings

Policy = Callable[[Snapshot, Settings, float], Plan]
"""From what is seen, what is set, and the time, to a plan. Pure: equal arguments give equal plans."""

POLICIES: dict[str, Policy] = {
    dynamoth.NAME: dynamoth.dynamoth,
    hash.NAME: hash.hashing,
    epulsar.NAME: epulsar.epulsar,
    epulsar.ALL_PAIRS: epulsar.all_pairs,
    ktcp.FFD: ktcp.ktcp_ffd,
    ktcp.LFS: ktcp.ktcp_lfs,
    ktcp.HYBRID: ktcp.ktcp_hybrid,
    ktcp.EXACT: ktcp.ktcp_exact,
    bad.LDM: bad.bad_ldm,
    bad.SDM: bad.bad_sdm,
    bad.SHUFFLE: bad.bad_shuffle,
    bad_groups.NAME: bad_groups.bad_groups,
    area_homes.RANDOM: area_homes.at_random_policy,
    area_homes.NEAREST: area_homes.nearest_policy,
    area_homes.ONE_TOPIC: area_homes.one_topic_policy,
    area_homes.RELOC: area_homes.reloc_policy,
    area_homes.SEARCH: area_homes.search_policy,
    area_homes.EXACT: area_homes.exact_policy,
}

PROCESSING_POLICIES = (ktcp.FFD, ktcp.LFS, ktcp.HYBRID, ktcp.EXACT)
"""Those that place topics by what their processing takes."""

HOME_POLICIES = (bad.LDM, bad.SDM, bad.SHUFFLE, bad_groups.NAME)
"""Those that give subscribers of channels homes by their loads; those of `area_homes` do it for clients of topics."""


def policy_named(name: str) -> Policy:
    try:
        return POLICIES[name]
    except KeyError:
        raise ConfigError(f"policy {name!r} is not known; there are {', '.join(sorted(POLICIES))}") from None
