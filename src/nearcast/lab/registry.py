"""Every experiment, by name. To add one: write its module in `nearcast.lab.experiments` and name it here."""

from collections.abc import Mapping
from difflib import get_close_matches

from nearcast.domain.errors import ConfigError
from nearcast.lab.experiment import Experiment
from nearcast.lab.experiments import (
    bad_emergency,
    bad_groups,
    bad_prototype,
    bad_sharing,
    bad_simulation,
    dynamoth_elasticity,
    dynamoth_linger,
    dynamoth_overhead,
    dynamoth_reconfiguration,
    dynamoth_replication,
    dynamoth_scalability,
    epulsar_coordinates,
    epulsar_migration,
    epulsar_mmog,
    epulsar_monitoring,
    epulsar_overload,
    epulsar_persistent,
    epulsar_placement,
    epulsar_profile,
    epulsar_uav,
    khare_exact,
    khare_feedback,
    khare_model,
    khare_placement,
    khare_sensitivity,
    khare_taxis,
    reloc_delay,
    reloc_live,
    reloc_moves,
    reloc_optimality,
    reloc_scale,
)

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        bad_emergency.EXPERIMENT,
        bad_groups.EXPERIMENT,
        bad_prototype.EXPERIMENT,
        bad_sharing.EXPERIMENT,
        bad_simulation.EXPERIMENT,
        dynamoth_elasticity.EXPERIMENT,
        dynamoth_linger.EXPERIMENT,
        dynamoth_overhead.EXPERIMENT,
        dynamoth_reconfiguration.EXPERIMENT,
        dynamoth_replication.ALL_PUBLISHERS,
        dynamoth_replication.ALL_SUBSCRIBERS,
        dynamoth_scalability.EXPERIMENT,
        epulsar_coordinates.EXPERIMENT,
        epulsar_migration.EXPERIMENT,
        epulsar_mmog.EXPERIMENT,
        epulsar_monitoring.EXPERIMENT,
        epulsar_overload.EXPERIMENT,
        epulsar_persistent.EXPERIMENT,
        epulsar_placement.MMOG,
        epulsar_placement.UAV,
        epulsar_profile.EXPERIMENT,
        epulsar_uav.EXPERIMENT,
        khare_exact.EXPERIMENT,
        khare_feedback.EXPERIMENT,
        khare_model.EXPERIMENT,
        khare_placement.HYBRID,
        khare_placement.PLACEMENT,
        khare_sensitivity.EXPERIMENT,
        khare_taxis.EXPERIMENT,
        reloc_delay.CLUSTERS,
        reloc_delay.LOCALITY,
        reloc_delay.SPOOL,
        reloc_live.EXPERIMENT,
        reloc_moves.EXPERIMENT,
        reloc_optimality.EXPERIMENT,
        reloc_scale.EXPERIMENT,
    )
}


def find(name: str, experiments: Mapping[str, Experiment] = EXPERIMENTS) -> Experiment:
    """The experiment of that name; ConfigError, with the nearest name, when there is none."""
    try:
        return experiments[name]
    except KeyError:
        near = get_close_matches(name, experiments, n=1)
        hint = f"did you mean {near[0]!r}?" if near else "`nearcast lab list` names them all"
        raise ConfigError(f"no experiment {name!r}: {hint}") from None
