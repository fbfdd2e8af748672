"""What the five papers claim, and what is to be seen where they say so. Ids are those that experiments carry."""

from dataclasses import dataclass
from typing import NamedTuple


class PaperClaim(NamedTuple):
    """`figure`: where the paper has it, as it is cited. `shows`: what is to be seen there."""

    id: str
    experiment: str
    figure: str
    shows: str


@dataclass(frozen=True, slots=True)
class Paper:
    key: str
    title: str
    gives: str
    claims: tuple[PaperClaim, ...]


PAPERS: tuple[Paper, ...] = (
    Paper(
        "EP",
        "ePulsar",
        "Latency-aware placement by network coordinates, and coordinated migration.",
        (
            PaperClaim(
                "EP-1",
                "epulsar.coordinates",
                "Figure 3",
                "The error of round-trip times by Vivaldi coordinates, as nodes and distances grow on a star: it "
                "stays small.",
            ),
            PaperClaim(
                "EP-2",
                "epulsar.coordinates",
                "Section 5.3",
                "What the coordinate engine costs when it is asked every 1 to 5 s.",
            ),
            PaperClaim(
                "EP-3",
                "epulsar.mmog-placement",
                "Figure 4",
                "A game with players in cities: worst-case latencies and violations of ePulsar's broker selection "
                "against hashing and against a policy that sees every pair of clients.",
            ),
            PaperClaim(
                "EP-4",
                "epulsar.uav-placement",
                "Figure 5",
                "Swarms of drones over zones: worst-case latencies by policy; ePulsar stays under 40 ms, hashing does "
                "not.",
            ),
            PaperClaim(
                "EP-5",
                "epulsar.monitoring",
                "Figure 6",
                "The rate of monitoring traffic as clients per topic grow: flat, where monitoring all pairs grows.",
            ),
            PaperClaim(
                "EP-6",
                "epulsar.migration",
                "Figure 7a",
                "The downtime of clients while topics migrate, against the distance between sites, for the baseline's "
                "workflow and ePulsar's.",
            ),
            PaperClaim(
                "EP-7",
                "epulsar.migration",
                "Figure 7b",
                "The time of one topic's migration, as topics and executors grow.",
            ),
            PaperClaim(
                "EP-8",
                "epulsar.uav",
                "Figure 8",
                "Latencies of eight swarms over time: over the bound only between a zone change and the end of the "
                "migration.",
            ),
            PaperClaim(
                "EP-9",
                "epulsar.mmog",
                "Figure 9",
                "Latencies of the updates in one avatar's area of interest: spikes only when players regroup.",
            ),
            PaperClaim(
                "EP-10",
                "epulsar.overload",
                "Sections 3.4.2 and 3.4.3",
                "Overload by resource or by output rate: the heaviest topics leave until the broker is below its "
                "watermark.",
            ),
            PaperClaim(
                "EP-11",
                "epulsar.persistent",
                "Section 3.5",
                "Persistent topics are logged at the broker's own site, on distinct racks; what was acknowledged "
                "survives.",
            ),
            PaperClaim(
                "EP-12",
                "epulsar.profile",
                "Section 5.4",
                "Over many settings, output rate is what latency goes with; its knee is the watermark.",
            ),
        ),
    ),
    Paper(
        "KH",
        "Khare",
        "Processing at the broker, and a learned latency model by which topics are co-located.",
        (
            PaperClaim(
                "KH-1",
                "khare.sensitivity",
                "Figure 1a",
                "The 90th percentile against the number of subscribers: nearly flat up to 240.",
            ),
            PaperClaim(
                "KH-2",
                "khare.sensitivity",
                "Figure 1b",
                "The 90th percentile of a topic as background topics are added: rising.",
            ),
            PaperClaim(
                "KH-3",
                "khare.sensitivity",
                "Figure 1c",
                "The 90th percentile against the publishing rate: linear up to a threshold, then explosive.",
            ),
            PaperClaim(
                "KH-4",
                "khare.sensitivity",
                "Figure 1d",
                "The threshold rate falls as more background topics are beside it.",
            ),
            PaperClaim(
                "KH-5",
                "khare.model",
                "Figure 2a",
                "The isolated topic's model, a polynomial of degree 4, against what was measured.",
            ),
            PaperClaim(
                "KH-6",
                "khare.model",
                "Table I, Figure 2",
                "Models for 2 to 6 co-located topics: predicted against measured, and learning curves.",
            ),
            PaperClaim(
                "KH-7",
                "khare.placement",
                "Figure 3",
                "Brokers, time and mean 90th percentile of FFD, LFS and the hybrid as topics grow from 10 to 80; and "
                "how many promises are missed.",
            ),
            PaperClaim(
                "KH-8",
                "khare.hybrid",
                "Figure 4",
                "The hybrid from FFD to LFS (k' = 1 to 6): fewer brokers, more time.",
            ),
            PaperClaim(
                "KH-9",
                "khare.exact",
                "Theorem 1",
                "With two topics per broker the best placement is a matching.",
            ),
            PaperClaim("KH-10", "khare.feedback", "Section IV-E", "A missed promise is fed back into the model."),
        ),
    ),
    Paper(
        "BAD",
        "BAD",
        "Channels over data, shared subscriptions, and balancing of subscribers over brokers.",
        (
            PaperClaim(
                "BAD-1",
                "bad.emergency",
                "Section 6.1",
                "The prototype: emergencies, shelters, channels and their subscribers, live.",
            ),
            PaperClaim("BAD-2", "bad.emergency", "Equation 5", "The load of a broker, computed and counted."),
            PaperClaim(
                "BAD-3",
                "bad.prototype",
                "Figures 5 to 7",
                "Loads of brokers over time with random and round-robin placement, without balancing, with LDM and "
                "with SDM.",
            ),
            PaperClaim(
                "BAD-4",
                "bad.prototype",
                "Figures 8 to 11",
                "The same with the nearest broker, which is extreme; migrations, or migrations and a shuffle, repair "
                "it.",
            ),
            PaperClaim(
                "BAD-5",
                "bad.prototype",
                "Figure 12",
                "How many subscribers are migrated, by placement: far more with the nearest broker.",
            ),
            PaperClaim(
                "BAD-6",
                "bad.simulation",
                "Figure 13",
                "Loads of ten brokers over time: unbalanced, with LDM, and with a shuffle, which balances at once.",
            ),
            PaperClaim(
                "BAD-7",
                "bad.simulation",
                "Figure 14",
                "Smaller alpha and beta: a lower coefficient of variation, and more migrations.",
            ),
            PaperClaim(
                "BAD-8",
                "bad.sharing",
                "Section 3.1",
                "Equal subscriptions are shared at the broker and at the data cluster.",
            ),
        ),
    ),
    Paper(
        "DYN",
        "Dynamoth",
        "Unmodified servers, reconfiguration that loses nothing, replication of channels, elasticity.",
        (
            PaperClaim(
                "DYN-1",
                "dynamoth.all-publishers",
                "Figure 4a",
                "Response times as subscribers grow, with one server and with three.",
            ),
            PaperClaim(
                "DYN-2",
                "dynamoth.all-subscribers",
                "Figure 4b",
                "Response times as publishers grow, with one server and with three.",
            ),
            PaperClaim(
                "DYN-3",
                "dynamoth.scalability",
                "Figure 5",
                "Players over time, servers in use, messages and response times, against consistent hashing.",
            ),
            PaperClaim(
                "DYN-4",
                "dynamoth.scalability",
                "Figure 6",
                "The average load ratio of servers and the busiest one's over time.",
            ),
            PaperClaim(
                "DYN-5",
                "dynamoth.elasticity",
                "Figure 7",
                "A number of players that falls and rises: servers follow, response times stay low.",
            ),
            PaperClaim(
                "DYN-6",
                "dynamoth.reconfiguration",
                "Section IV, Figure 3",
                "No message is lost or repeated while channels are reconfigured.",
            ),
            PaperClaim("DYN-7", "dynamoth.overhead", "Section III-A", "The load analyzer is unintrusive."),
        ),
    ),
    Paper(
        "REL",
        "RELOC",
        "A topic on many edge servers, and homes by locality and relation.",
        (
            PaperClaim(
                "REL-1",
                "reloc.locality",
                "Figure 14",
                "Storage, load, distance and delivery delay of four methods against the locality of clients.",
            ),
            PaperClaim("REL-2", "reloc.spool", "Figure 15", "The same against the size of spools."),
            PaperClaim("REL-3", "reloc.clusters", "Figure 16", "The same for RELOC against the number of clusters."),
            PaperClaim("REL-4", "reloc.optimality", "Future work there", "How far RELOC is from the optimum."),
            PaperClaim(
                "REL-5",
                "reloc.live",
                "Sections 3 and 5",
                "Processed at the publisher's home, delivered through the subscriber's, delegated when that is full.",
            ),
            PaperClaim("REL-6", "reloc.scale", "Not in the paper", "RELOC at a size far beyond the paper's."),
            PaperClaim("REL-7", "reloc.moves", "Not in the paper", "Homes change and delegate, and nothing is lost."),
        ),
    ),
)
