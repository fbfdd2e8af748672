"""The demo as a person sees it: a screen that renews itself, or a line now and then where there is no terminal."""

from collections import deque
from dataclasses import dataclass, field

from rich import box
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from nearcast.cli.demo.tally import TopicTally
from nearcast.domain.route import Route

_NEWS = 6


@dataclass(slots=True)
class Scene:
    """All that is shown. `routes` says where the demo has moved each topic; None: it is where the ring put it."""

    brokers: dict[str, str]  # name -> site
    kind: str
    hop_ms: float
    tallies: dict[str, TopicTally]
    routes: dict[str, Route | None]
    seconds: float | None
    elapsed_s: float = 0.0
    moves: int = 0
    reports: int = 0
    news: deque[str] = field(default_factory=lambda: deque(maxlen=_NEWS))

    def totals(self) -> dict[str, int]:
        tallies = self.tallies.values()
        return {
            "published": sum(each.published for each in tallies),
            "delivered": sum(each.delivered for each in tallies),
            "moves": self.moves,
            "lost": sum(each.lost for each in tallies),
            "duplicated": sum(each.duplicated for each in tallies),
            "reports": self.reports,
        }


def screen(scene: Scene) -> RenderableType:
    left = "until Ctrl-C" if scene.seconds is None else f"{max(0.0, scene.seconds - scene.elapsed_s):.0f} s left"
    where = ", ".join(f"{broker} ({site})" for broker, site in scene.brokers.items())
    head = Text(f"{len(scene.brokers)} {scene.kind} servers: {where}; {scene.hop_ms:g} ms between sites; {left}")
    table = Table(box=box.SIMPLE, pad_edge=False, expand=True)
    for column in ("topic", "strategy", "on", "epoch"):
        table.add_column(column)
    for column in ("in /s", "out /s", "p50 ms", "p99 ms", "lost", "twice"):
        table.add_column(column, justify="right")
    for topic, tally in scene.tallies.items():
        table.add_row(*_row(topic, tally, scene.routes[topic]))
    totals = scene.totals()
    bad = totals["lost"] + totals["duplicated"] > 0
    count = Text(
        f"published {totals['published']}   delivered {totals['delivered']}   moves {totals['moves']}   "
        f"lost {totals['lost']}   duplicated {totals['duplicated']}   reports {totals['reports']}",
        style="bold red" if bad else "bold green",
    )
    return Panel(Group(head, table, count, Text("\n".join(scene.news), style="dim")), title="nearcast demo")


def line(scene: Scene) -> str:
    facts = "  ".join(f"{name} {value}" for name, value in scene.totals().items())
    return f"{scene.elapsed_s:4.0f} s  {facts}"


def _row(topic: str, tally: TopicTally, route: Route | None) -> list[str]:
    came, went = tally.rates()
    found = tally.percentiles_ms()
    p50, p99 = ("", "") if found is None else (f"{found[0]:.1f}", f"{found[1]:.1f}")
    where = ("ring", "", "0") if route is None else (route.strategy.value, ", ".join(route.brokers), str(route.epoch))
    return [topic, *where, f"{came:.0f}", f"{went:.0f}", p50, p99, str(tally.lost), str(tally.duplicated)]
