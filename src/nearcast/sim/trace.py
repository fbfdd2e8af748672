"""What a person needs to see of a failing run: the events around one finding, and nothing else."""

from nearcast.sim.check import CheckResult, Finding
from nearcast.sim.history import Event, History

_BEFORE_S = 8.0
_AFTER_S = 4.0


def first_finding(result: CheckResult) -> tuple[str, Finding] | None:
    """What went wrong first, and what kind of wrong it is; None for an honest run."""
    kinds = {
        "lost": result.lost,
        "duplicated": result.duplicated,
        "reordered": result.reordered,
        "invented": result.invented,
    }
    return next(((kind, findings[0]) for kind, findings in kinds.items() if findings), None)


def minimal_trace(history: History, finding: Finding) -> list[str]:
    """The life of one message as one subscription saw it, with the moves of its topic and the faults around it."""
    topic = next(event[3] for event in history.events if event[0] == "subscribed" and event[2] == finding.subscription)
    about_s = next(
        (event[1] for event in history.events if event[0] == "publish" and event[2:] == _published(finding, topic)), 0.0
    )
    lines = []
    for event in history.events:
        near = about_s - _BEFORE_S <= event[1] <= about_s + _AFTER_S
        if _concerns(event, finding, topic) and (near or event[0] in ("subscribed", "unsubscribe", "crashed")):
            kind, time_s, *fields = event
            lines.append(f"{time_s:10.4f}  {kind:<14} {' '.join(str(field) for field in fields)}")
    return lines


def _published(finding: Finding, topic: str) -> tuple[int, str, int]:
    return (finding.publisher, topic, finding.seq)


def _concerns(event: Event, finding: Finding, topic: str) -> bool:
    match event[0]:
        case "publish" | "published":
            return bool(event[2] == finding.publisher and event[3] == topic)
        case "delivered":
            return bool(event[2] == finding.subscription and event[3] == finding.publisher)
        case "move":
            return bool(event[2] == topic)
        case "fault" | "home":
            return True
        case "finished":
            return False
        case _:
            return bool(event[2] == finding.subscription)
