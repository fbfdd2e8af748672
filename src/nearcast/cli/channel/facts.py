"""What commands print of a channel and of how it goes."""

from nearcast.domain.channel import Channel, ChannelSpec
from nearcast.domain.execution import Execution, Failure, Progress


def facts_of(channel: Channel) -> dict[str, object]:
    spec = channel.spec
    return {
        "channel": channel.name,
        "id": channel.id,
        "period_s": spec.period_s,
        "push": spec.push,
        "parameters": {each.name: each.type for each in spec.parameters},
        "datasets": channel.datasets,
        "columns": channel.columns,
        "warnings": channel.warnings,
        "created_s": channel.at_s,
        "query": spec.query,
    }


def progress_facts(progress: Progress) -> dict[str, object]:
    return {
        "executions": progress.count,
        "last": progress.recent[-1] if progress.recent else None,
        "failures": len(progress.failures),
        "last_failure": progress.failures[-1] if progress.failures else None,
    }


def show_rhythm(spec: ChannelSpec) -> str:
    return "as data arrives" if spec.period_s is None else f"every {spec.period_s:g} s"


def execution_row(each: Execution) -> tuple[str, ...]:
    windows = ", ".join(f"{name} {window.after}-{window.until}" for name, window in each.windows.items())
    return str(each.number), str(each.rows), str(each.keys), f"{each.took_s:.3f}", f"{each.late_s:.3f}", windows


EXECUTION = ("execution", "rows", "keys", "seconds", "late s", "versions")


def show_failure(each: Failure) -> str:
    return f"after {each.took_s:.3f} s: {each.reason}"
