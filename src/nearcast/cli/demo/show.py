"""The demo as a person sees it: a screen that renews itself, or a line now and then where there is no terminal."""

from collections import deque
from dataclasses import dataclass, field

from rich import box
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from nearcast.cli.demo.tally import TopicTally
from nearcast.wire.promises import PromiseStanding

_NEWS = 8


@dataclass(slots=True)
class Scene:
    """All that is shown. `at`: where each topic is; "": where the ring put it. `page`: the dashboard's address."""

    brokers: dict[str, str]  # name -> site
    kind: str
    tallies: dict[str, TopicTally]
    seconds: float | None
    page: str = ""
    at: dict[str, str] = field(default_factory=dict)
    standings: dict[str, PromiseStanding] = field(default_factory=dict)
    elapsed_s: float = 0.0
    moves: int = 0
    crossings: int = 0
    reports: int = 0
    news: deque[str] = field(default_factory=lambda: deque(maxlen=_NEWS))
    repaired_s: list[float] = field(default_factory=list)  # from a broken promise to a kept one
    _broken_s: dict[str, float] = field(default_factory=dict)

    def saw(self, standings: tuple[PromiseStanding, ...]) -> None:
        """How promises stand now; what changed is news."""
        for each in standings:
            was = self.standings.get(each.topic)
            self.standings[each.topic] = each
            if each.kept is False and each.topic not in self._broken_s:
                self._broken_s[each.topic] = self.elapsed_s
                self.news.append(f"{each.topic}: promise {each.slo} BROKEN ({_worst(each):.0f} ms)")
            elif each.kept and was is not None and each.topic in self._broken_s:
                took_s = self.elapsed_s - self._broken_s.pop(each.topic)
                self.repaired_s.append(took_s)
                self.news.append(f"{each.topic}: kept again ({_worst(each):.0f} ms), {took_s:.0f} s after")

    def totals(self) -> dict[str, int]:
        tallies = self.tallies.values()
        return {
            "published": sum(each.published for each in tallies),
            "delivered": sum(each.delivered for each in tallies),
            "crossings": self.crossings,
            "moves": self.moves,
            "kept": sum(each.kept is True for each in self.standings.values()),
            "broken": sum(each.kept is False for each in self.standings.values()),
            "lost": sum(each.lost for each in tallies),
            "duplicated": sum(each.duplicated for each in tallies),
            "reports": self.reports,
        }


def screen(scene: Scene) -> RenderableType:
    left = "until Ctrl-C" if scene.seconds is None else f"{max(0.0, scene.seconds - scene.elapsed_s):.0f} s left"
    where = ", ".join(f"{broker} ({site})" for broker, site in scene.brokers.items())
    head = Text(f"{len(scene.brokers)} {scene.kind} servers: {where}; {left}")
    page = Text(f"dashboard: {scene.page}" if scene.page else "no dashboard: pip install 'nearcast[web]'", "bold")
    table = Table(box=box.SIMPLE, pad_edge=False, expand=True)
    for column in ("topic", "promise", "on"):
        table.add_column(column)
    for column in ("in /s", "out /s", "p50 ms", "p99 ms", "lost", "twice"):
        table.add_column(column, justify="right")
    for topic, tally in scene.tallies.items():
        table.add_row(*_row(scene, topic, tally))
    totals = scene.totals()
    bad = totals["lost"] + totals["duplicated"] > 0
    count = Text("   ".join(f"{name} {value}" for name, value in totals.items()), "bold red" if bad else "bold green")
    return Panel(Group(head, page, table, count, Text("\n".join(scene.news), style="dim")), title="nearcast demo")


def line(scene: Scene) -> str:
    facts = "  ".join(f"{name} {value}" for name, value in scene.totals().items())
    return f"{scene.elapsed_s:4.0f} s  {facts}"


def _row(scene: Scene, topic: str, tally: TopicTally) -> list[RenderableType]:
    came, went = tally.rates()
    found = tally.percentiles_ms()
    p50, p99 = ("", "") if found is None else (f"{found[0]:.1f}", f"{found[1]:.1f}")
    standing = scene.standings.get(topic)
    words = {True: Text("kept", "green"), False: Text("BROKEN", "bold red"), None: Text("not measured", "dim")}
    state = words[None if standing is None else standing.kept]
    where = scene.at.get(topic) or "ring"
    return [topic, state, where, f"{came:.0f}", f"{went:.0f}", p50, p99, str(tally.lost), str(tally.duplicated)]


def _worst(standing: PromiseStanding) -> float:
    return max(standing.measured_ms or 0.0, standing.worst_ms or 0.0)
