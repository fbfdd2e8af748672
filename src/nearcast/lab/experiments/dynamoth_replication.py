"""DYN-1 and DYN-2: one topic that is too much for one server, on one and on three, live.

`dynamoth.all-publishers` (Figure 4a): one publisher, ever more subscribers. A server runs out of processor: it has the
share that it needs alone for 400 subscribers, as measured in the same run: one fails before 800, and three have room to
carry them. (With the share for 300 three were at their limit too: beside two other busy servers each takes longer for
the same.)

`dynamoth.all-subscribers` (Figure 4b): ever more publishers, one subscriber. The line between a server and the
subscriber is full, what waits for it grows, and the server cuts the subscriber off at its own limit of output. Lines
are so slow that three of them are full before this machine is: with 1 MB/s its publishers fell behind first.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

from nearcast.domain.route import Strategy
from nearcast.fleet.local import LocalSpec
from nearcast.lab.claim import Claim, Expectation
from nearcast.lab.experiment import Experiment, Outcome, Progress, RunSettings, Table
from nearcast.lab.live.crowd import Probe, crowd_on

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_RATE = 10.0  # messages a second per publisher, the paper's
_SERVERS = (1, 3)
_ENOUGH_FOR = 400  # subscribers
_SUBSCRIBERS = (100, 200, 300, 400, 500, 600, 700, 800)
_QUICK_SUBSCRIBERS = (100, 300, 600)
_LINE_BYTES_PER_S = 0.75e6
_SIZE_BYTES = 1000
_OUTPUT_BYTES = 1024 * 1024
_NEAR_S = 0.002
_FIRST, _QUICK_FIRST = 18, 36  # publishers
_RESOLUTION, _QUICK_RESOLUTION = 0.03, 0.12
_FAR_BEYOND = {1: 3, 3: 2}  # times too many; of one server, until what it cannot send exceeds its limit of output
_COLUMNS = (
    "servers",
    "publishers",
    "subscribers",
    "asked",
    "expected",
    "delivered",
    "mean_ms",
    "p99_ms",
    "reports",
    "cpu_s",
    "carried",
)

COLLAPSED = Expectation("DYN-1", "most subscribers that one server carries", f"< {_SUBSCRIBERS[-1]}")
FLAT = Expectation("DYN-1", "mean response with three servers where one has collapsed (ms)", "<= 150")
RATIO = Expectation("DYN-2", "publishers carried by three servers over those carried by one", ">= 2.7")
CUT_OFF = Expectation("DYN-2", "reports of a broken connection where one server failed", "> 0")

_Rows = list[tuple[int, Probe]]


def _all_publishers(settings: RunSettings, progress: Progress) -> Outcome:
    rows = asyncio.run(_sweep_subscribers(settings, progress))
    one, three = ([probe for servers, probe in rows if servers == each] for each in _SERVERS)
    carried = max((probe.subscribers for probe in one if probe.carried), default=0)
    beyond = [probe for probe in three if probe.subscribers > carried]
    claims = [COLLAPSED.judge(carried)]
    if beyond:
        claims.append(FLAT.judge(round(max(probe.mean_s for probe in beyond) * 1e3, 1)))
    return _outcome(settings, rows, tuple(claims), "subscribers", {"one_server_carries": carried})


async def _sweep_subscribers(settings: RunSettings, progress: Progress) -> _Rows:
    counts = _QUICK_SUBSCRIBERS if settings.quick else _SUBSCRIBERS
    settle_s, seconds = _times_s(settings)
    rows: _Rows = []
    share = 1.0
    for servers in _SERVERS:
        spec = LocalSpec(sites=servers, kind=settings.brokers or "redis", coordinators=1)
        async with crowd_on(spec, settings.seed) as crowd:
            probe = partial(crowd.probe, 1, rate=_RATE, seconds=seconds, settle_s=settle_s)
            if servers == 1:
                free = await probe(_ENOUGH_FOR)
                share = min(1.0, free.cpu_s / seconds)
            else:
                await crowd.route(Strategy.ALL_PUBLISHERS, spec.brokers)
            for subscribers in counts:
                progress(len(rows), 2 * len(counts), f"{servers} servers")
                rows.append((servers, await probe(subscribers, share=share)))
    return rows


def _all_subscribers(settings: RunSettings, progress: Progress) -> Outcome:
    rows = asyncio.run(_search_publishers(settings, progress))
    most = {
        each: max((one.publishers for at, one in rows if at == each and one.carried), default=0) for each in _SERVERS
    }
    failed = [one for at, one in rows if at == 1 and not one.carried]
    claims = (
        RATIO.judge(round(most[3] / most[1], 2) if most[1] else 0.0),
        CUT_OFF.judge(sum(one.reports for one in failed)),
    )
    return _outcome(settings, rows, claims, "publishers", {f"{each}_servers_carry": most[each] for each in _SERVERS})


async def _search_publishers(settings: RunSettings, progress: Progress) -> _Rows:
    settle_s, seconds = _times_s(settings)
    rows: _Rows = []
    for servers in _SERVERS:
        spec = LocalSpec(
            sites=servers,
            kind=settings.brokers or "redis",
            coordinators=1,
            near_s=_NEAR_S,
            link_bytes_per_s=_LINE_BYTES_PER_S,
            output_bytes=_OUTPUT_BYTES,
        )
        async with crowd_on(spec, settings.seed) as crowd:
            if servers > 1:
                await crowd.route(Strategy.ALL_SUBSCRIBERS, spec.brokers)
            probe = partial(
                crowd.probe,
                subscribers=1,
                rate=_RATE,
                seconds=seconds,
                settle_s=settle_s,
                size=_SIZE_BYTES,
                site=spec.site(0),
            )
            first, resolution = (_QUICK_FIRST, _QUICK_RESOLUTION) if settings.quick else (_FIRST, _RESOLUTION)
            note = partial(_note, rows, servers, progress)
            await _most_publishers(probe, first * servers, _FAR_BEYOND[servers], resolution, note)
    return rows


def _times_s(settings: RunSettings) -> tuple[float, float]:
    """For how long nothing is measured, and then something is."""
    return (0.0, 3.0) if settings.quick else (15.0, 8.0)


async def _most_publishers(
    probe: Callable[[int], Awaitable[Probe]],
    first: int,
    beyond: int,
    resolution: float,
    found: Callable[[Probe], None],
) -> None:
    """Doubles until it is too much, then halves the interval in which the answer lies; at last `beyond` times that.

    Too much is what fails twice: a machine has other things to do at times.
    """
    carried, too_many, count = 0, None, first
    while too_many is None or too_many - carried > max(1.0, resolution * carried):
        for _ in range(2):
            found(seen := await probe(count))
            if seen.carried:
                carried = count
                break
        else:
            too_many = count
        count = 2 * carried if too_many is None else (carried + too_many) // 2
    found(await probe(beyond * too_many))


def _note(rows: _Rows, servers: int, progress: Progress, probe: Probe) -> None:
    rows.append((servers, probe))
    progress(len(rows), len(rows) + 1, f"{servers} servers, {probe.publishers} publishers")


def _outcome(
    settings: RunSettings, rows: _Rows, claims: tuple[Claim, ...], by: str, metrics: dict[str, int]
) -> Outcome:
    table = tuple(
        (
            servers,
            probe.publishers,
            probe.subscribers,
            probe.asked,
            probe.expected,
            probe.delivered,
            round(probe.mean_s * 1e3, 2),
            round(probe.p99_s * 1e3, 2),
            probe.reports,
            probe.cpu_s,
            probe.carried,
        )
        for servers, probe in rows
    )
    return Outcome(
        claims=claims,
        metrics={
            "brokers": settings.brokers or "redis",
            **metrics,
            "probes_in_which_publishers_fell_behind": sum(probe.behind for _, probe in rows),
        },
        tables={"probes": Table(_COLUMNS, table)},
        figures={"response": partial(_draw, rows, by)},
    )


def _draw(rows: _Rows, by: str, figure: "Figure") -> None:
    axes = figure.add_subplot()
    for servers in _SERVERS:
        points = sorted((getattr(probe, by), probe.mean_s * 1e3, probe.carried) for at, probe in rows if at == servers)
        (line,) = axes.plot(
            [x for x, _, _ in points],
            [y for _, y, _ in points],
            marker="o",
            label="1 server" if servers == 1 else f"{servers} servers",
        )
        lost = [(x, y) for x, y, carried in points if not carried]
        axes.plot([x for x, _ in lost], [y for _, y in lost], "x", color=line.get_color(), markersize=12)
    axes.axhline(150, color="grey", linestyle=":", label="150 ms")
    axes.set_yscale("log")
    axes.set_xlabel(f"{by} of the topic")
    axes.set_ylabel("mean response (ms)")
    axes.set_title("x: not carried (late, missing or cut off)")
    axes.legend()


ALL_PUBLISHERS = Experiment(
    name="dynamoth.all-publishers",
    paper="Dynamoth, section V-C, Figure 4a",
    summary="one publisher and ever more subscribers, on one server and on three; one runs out of processor",
    expectations=(COLLAPSED, FLAT),
    modes=("live",),
    measure=_all_publishers,
    options=("brokers",),
)

ALL_SUBSCRIBERS = Experiment(
    name="dynamoth.all-subscribers",
    paper="Dynamoth, section V-C, Figure 4b",
    summary="ever more publishers and one subscriber, on one server and on three; one cuts the subscriber off",
    expectations=(RATIO, CUT_OFF),
    modes=("live",),
    measure=_all_subscribers,
    options=("brokers",),
)
