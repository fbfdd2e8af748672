"""The demo of emergencies as a person sees it: a screen that renews itself, or a line now and then."""

from collections import deque
from dataclasses import dataclass, field

from rich import box
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from nearcast.cli.output import show_rate
from nearcast.wire.homes import HomesTold

_NEWS = 8


@dataclass(slots=True)
class EmergencyScene:
    """All that is shown. `first_cov`: of the first loads that there were."""

    seconds: float
    subscribers: int
    elapsed_s: float = 0.0
    reports: int = 0
    subscriptions: int = 0
    notifications: int = 0
    rows: int = 0
    missed: int = 0
    homes: HomesTold | None = None
    first_cov: float | None = None
    news: deque[str] = field(default_factory=lambda: deque(maxlen=_NEWS))

    def saw(self, homes: HomesTold) -> None:
        self.homes = homes
        if self.first_cov is None and any(each.load_bytes_per_s > 0 for each in homes.brokers):
            self.first_cov = round(homes.cov, 3)

    def facts(self) -> dict[str, float | None]:
        return {
            "reports": self.reports,
            "subscriptions": self.subscriptions,
            "notifications": self.notifications,
            "rows": self.rows,
            "missed": self.missed,
            "cov": None if self.homes is None else round(self.homes.cov, 3),
        }


def screen(scene: EmergencyScene) -> RenderableType:
    left = f"{max(0.0, scene.seconds - scene.elapsed_s):.0f} s left"
    head = Text(f"{scene.subscribers} people, {scene.subscriptions} subscriptions to seven channels; {left}")
    table = Table(box=box.SIMPLE, pad_edge=False, expand=True)
    table.add_column("broker")
    for column in ("subscribers", "distinct subscriptions", "load"):
        table.add_column(column, justify="right")
    for each in scene.homes.brokers if scene.homes else ():
        table.add_row(each.broker, str(each.subscribers), str(each.keys), show_rate(each.load_bytes_per_s))
    cov = "" if scene.homes is None else f"   cov of loads {scene.homes.cov:.2f}"
    count = Text(
        f"reports {scene.reports}   notifications {scene.notifications}   missed {scene.missed}{cov}",
        style="bold red" if scene.missed else "bold green",
    )
    news = Text("\n".join(scene.news), style="dim", no_wrap=True, overflow="ellipsis")
    return Panel(Group(head, table, count, news), title="nearcast demo emergency")


def line(scene: EmergencyScene) -> str:
    facts = "  ".join(f"{name} {value}" for name, value in scene.facts().items() if value is not None)
    return f"{scene.elapsed_s:4.0f} s  {facts}"
