"""`nearcast up`."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Literal

import typer

from nearcast.cli.options import AsJson
from nearcast.cli.output import print_json
from nearcast.cli.token import dashboard_link
from nearcast.fleet.local import LocalSpec, launch, launch_own, renting_for
from nearcast.fleet.permissions import Tenant
from nearcast.fleet.quota import Quota
from nearcast.fleet.supervisor import Supervisor
from nearcast.policies.registry import policy_named
from nearcast.transport.config import Config, load_config
from nearcast.transport.http import parse_address
from nearcast.transport.process import run_until_stopped

_EVERY_S = 5.0


def start_fleet(
    *,
    sites: Annotated[
        int | None, typer.Option(min=1, max=16, help="How many sites, each with a broker of its own; 3 by default.")
    ] = None,
    brokers: Annotated[
        Literal["nats", "redis"] | None, typer.Option(help="The kind of servers; nats by default.")
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option("--config", metavar="F", help="Start no server, only agents and coordinators for those in F."),
    ] = None,
    state: Annotated[
        Path, typer.Option(metavar="DIR", help="Where everything is kept: configuration, data, logs.")
    ] = Path(".nearcast"),
    delay_ms: Annotated[
        float | None,
        typer.Option(
            "--delay", min=0, max=1000, help="One-way ms between neighbouring sites; by default all are near."
        ),
    ] = None,
    capacity: Annotated[
        float | None, typer.Option(metavar="BYTES/S", min=1, help="What each broker can send; load is relative to it.")
    ] = None,
    cluster: Annotated[
        int | None,
        typer.Option(min=1, max=5, help="How many NATS servers per site, which keep persistent topics together."),
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(help="Let the leader plan by itself, every 5 s, with this policy; epulsar keeps promises."),
    ] = None,
    coordinators: Annotated[int, typer.Option(min=1, max=5, help="How many coordinators; one leads.")] = 2,
    web: Annotated[
        bool, typer.Option(help="Serve the dashboard and the API, which commands that change something need.")
    ] = True,
    metrics: Annotated[bool, typer.Option(help="Agents serve metrics too.")] = True,
    port: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=65_000,
            help="Of the first coordinator's dashboard; the others have the next ones. By default free ones.",
            show_default=False,
        ),
    ] = None,
    connections: Annotated[
        int | None, typer.Option(min=10, metavar="N", help="So many each broker takes at most; 10000 by default.")
    ] = None,
    tenant: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=TOPICS",
            help="Clients with a user of their own, which may use these topics only, like drones=fleet.>,alerts;"
            " their configuration is DIR/NAME.toml. May be given many times.",
            show_default=False,
        ),
    ] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Servers let in anybody on this machine, without TLS: for benchmarks.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Start servers, agents and coordinators on this machine, and keep them running until Ctrl-C.

    Other commands find the configuration in ./.nearcast, or by --config.
    """
    renting: Callable[[Supervisor], AbstractAsyncContextManager[object]] = _not_renting
    if policy is not None:
        policy_named(policy)
    if config is None:
        hop_s = (delay_ms or 0.0) / 1e3
        spec = LocalSpec(
            sites=sites or 3,
            kind=brokers or "nats",
            coordinators=coordinators,
            near_s=0.0005 if hop_s else 0.0,
            hop_s=hop_s,
            out_bytes_per_s=capacity,
            rents=True,
            cluster=cluster or 1,
            rebalance={} if policy is None else {"policy": policy, "every_s": _EVERY_S},
            web=web and find_spec("starlette") is not None and find_spec("prometheus_client") is not None,
            port=port or 0,
            metrics=metrics,
            secure=not insecure,
            tls=not insecure,
            quota=Quota() if connections is None else Quota(connections),
            tenants=tuple(map(Tenant.parse, tenant or ())),
        )
        everything, renting = partial(launch, spec=spec), partial(renting_for, spec=spec)
    else:
        ours = {
            "--sites": sites,
            "--brokers": brokers,
            "--delay": delay_ms,
            "--capacity": capacity,
            "--cluster": cluster,
            "--policy": policy,
            "--port": port,
            "--connections": connections,
            "--tenant": tenant,
            "--insecure": insecure or None,
        }
        for option, given in ours.items():
            if given is not None:
                raise typer.BadParameter(f"{option} is for servers that are started here: leave it out with --config")
        everything = partial(_launch_for, config=load_config(config), coordinators=coordinators)
    raise typer.Exit(run_until_stopped(lambda stopped: _serve(everything, renting, state, as_json, stopped)))


async def _launch_for(supervisor: Supervisor, config: Config, coordinators: int) -> Path:
    path = config.path.resolve()
    port = 0 if config.web.address is None else parse_address(config.web.address)[1]
    ports = [port + number for number in range(coordinators)] if port else ()
    await launch_own(supervisor, path, config.brokers, coordinators, ports)
    return path


def _not_renting(_supervisor: Supervisor) -> AbstractAsyncContextManager[None]:
    """Servers that are not ours do not become more by our doing."""
    return nullcontext()


async def _serve(
    everything: Callable[[Supervisor], Awaitable[Path]],
    renting: Callable[[Supervisor], AbstractAsyncContextManager[object]],
    state: Path,
    as_json: bool,
    stopped: asyncio.Event,
) -> None:
    def say(message: str) -> None:
        print(message, file=sys.stderr, flush=True)

    async def start(supervisor: Supervisor) -> None:
        config = await everything(supervisor)
        async with renting(supervisor):
            tell(supervisor, config)
            await asyncio.Event().wait()

    def tell(supervisor: Supervisor, config: Path) -> None:
        children = supervisor.status.children
        if as_json:
            print_json({"ready": True, "config": str(config), "children": children})
            sys.stdout.flush()
            return
        say(f"{len(children)} processes run: {', '.join(child.name for child in children)}")
        say(f"configuration: {config}    logs: {state / 'logs'}")
        pages = [str(child.facts["web"]) for child in children if "web" in child.facts]
        if sys.stderr.isatty():  # a log keeps what it is told: there the link is left to `nearcast token link`
            pages = [dashboard_link(page, load_config(config)) for page in pages]
        elif pages:
            pages[-1] += "    (`nearcast token link` prints links that let you in)"
        say(f"dashboard: {'  or  '.join(pages)}" if pages else "no dashboard: pip install 'nearcast[web]' for one")
        say(
            "try `nearcast status`, `nearcast sub hello` and, elsewhere, `nearcast pub hello world`; Ctrl-C ends it all"
        )

    await Supervisor(state, say=say).run(start, stopped)
