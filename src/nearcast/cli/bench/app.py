"""The verbs of `nearcast bench`."""

import typer

from nearcast.cli.bench.broker import bench_broker
from nearcast.cli.bench.channel import bench_channel
from nearcast.cli.bench.client import bench_client
from nearcast.cli.bench.feed import bench_feed
from nearcast.cli.bench.forward import bench_forward
from nearcast.cli.bench.notification import bench_notification
from nearcast.cli.bench.plan import bench_plan
from nearcast.cli.bench.ring import bench_ring
from nearcast.cli.bench.wan import bench_wan

app = typer.Typer(help="Measure parts of nearcast on this machine.", no_args_is_help=True)
app.command("broker")(bench_broker)
app.command("channel")(bench_channel)
app.command("client")(bench_client)
app.command("feed")(bench_feed)
app.command("forward")(bench_forward)
app.command("notification")(bench_notification)
app.command("plan")(bench_plan)
app.command("ring")(bench_ring)
app.command("wan")(bench_wan)


@app.callback()
def bench() -> None:
    pass  # keeps the noun while it has one verb
