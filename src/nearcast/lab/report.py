"""The lab's report: one HTML page that needs nothing else, from the results that lie in a directory."""

import base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from nearcast.lab.claim import Claim, Expectation
from nearcast.lab.experiment import Experiment
from nearcast.lab.papers import PAPERS, Paper, PaperClaim
from nearcast.lab.result import Result
from nearcast.lab.scoreboard import newest_of

Located = tuple[Path, Result]
"""A result, and the directory where its files are."""


@dataclass(frozen=True, slots=True)
class Judged:
    """One expectation of an experiment; `found` None: no result measured it."""

    expectation: Expectation
    claim: Claim | None
    found: Located | None

    @property
    def state(self) -> str:
        return "not run" if self.claim is None else ("holds" if self.claim.holds else "does not hold")


def report(
    experiments: Mapping[str, Experiment], results: Sequence[Located], made: str, failed: Mapping[str, str]
) -> str:
    """`results` the newest first. `made`: when, as it is shown. `failed`: what could not be run, and why."""
    judged = {name: tuple(_judged(each, results)) for name, each in experiments.items()}
    body = [_summary(judged, made), *(_paper(each, experiments, judged, failed) for each in PAPERS)]
    known = {claim.experiment for paper in PAPERS for claim in paper.claims}
    shown = {name for paper in PAPERS for name in _extra(paper, experiments, known)}
    rest = [name for name in experiments if name not in known | shown]
    if rest:
        body.append(f"<h2>Others</h2>{''.join(_experiment(experiments[name], judged[name], failed) for name in rest)}")
    style = Path(__file__).with_name("report.css").read_text(encoding="utf-8")
    return f"{_HEAD.format(style=style)}<body><main>{''.join(body)}</main></body></html>\n"


def _judged(experiment: Experiment, results: Sequence[Located]) -> Iterator[Judged]:
    newest = newest_of((result, (folder, result)) for folder, result in results)
    for one in experiment.expectations:
        found = newest.get((experiment.name, one.id, one.statement))
        if found is None:
            yield Judged(one, None, None)
        else:
            value, located = found
            yield Judged(one, one.judge(value), located)


def _summary(judged: Mapping[str, tuple[Judged, ...]], made: str) -> str:
    every = [each for found in judged.values() for each in found]
    counts = {state: sum(each.state == state for each in every) for state in ("holds", "does not hold", "not run")}
    links = "".join(f'<a href="#{paper.key}">{escape(paper.title)}</a>' for paper in PAPERS)
    figures = "".join(
        f'<div class="kpi {_CLASS[state]}"><b>{count}</b>{state}</div>' for state, count in counts.items()
    )
    return (
        "<header><h1>nearcast: what five papers claim, and what holds here</h1>"
        f"<p>Made {escape(made)}. A claim holds by its rule alone, on what was measured last; what does not hold says"
        " so. Rules are of ratios, orders and shapes, since machines differ.</p>"
        f'<div class="kpis">{figures}</div><nav>{links}</nav></header>'
    )


def _paper(
    paper: Paper,
    experiments: Mapping[str, Experiment],
    judged: Mapping[str, tuple[Judged, ...]],
    failed: Mapping[str, str],
) -> str:
    rows = "".join(_claim(each, experiments, judged) for each in paper.claims)
    known = [each.experiment for each in paper.claims]
    names = [*dict.fromkeys(known), *_extra(paper, experiments, known)]
    parts = "".join(_experiment(experiments[name], judged[name], failed) for name in names if name in experiments)
    return (
        f'<section id="{paper.key}"><h2>{escape(paper.title)}</h2><p>{escape(paper.gives)}</p>'
        "<table><thead><tr><th>Claim</th><th>In the paper</th><th>What is to be seen there</th><th>Experiment</th>"
        f"<th>Here</th></tr></thead><tbody>{rows}</tbody></table>{parts}</section>"
    )


def _extra(paper: Paper, experiments: Mapping[str, Experiment], known: Iterable[str]) -> list[str]:
    """Experiments of ours on a paper, beyond those that its claims name."""
    own = {*known}
    start = f"{paper.title.lower()}."
    return [name for name in experiments if name.startswith(start) and name not in own]


def _claim(each: PaperClaim, experiments: Mapping[str, Experiment], judged: Mapping[str, tuple[Judged, ...]]) -> str:
    own = [one for found in judged.values() for one in found if one.expectation.id == each.id]
    states = [one.state for one in own]
    if not states:
        state, text = "not run", "no experiment yet"
    elif "does not hold" in states:
        state, text = "does not hold", f"{states.count('holds')} of {len(states)} rules hold"
    elif "holds" not in states:
        state, text = "not run", f"none of its {len(states)} rules was measured"
    elif "not run" in states:
        state, text = "holds", f"{states.count('holds')} of {len(states)} rules hold, the others were not measured"
    else:
        state, text = "holds", f"{len(states)} rules hold"
    name = escape(each.experiment)
    link = f'<a href="#{name}">{name}</a>' if each.experiment in experiments else name
    return (
        f'<tr id="{each.id}"><td class="id"><b>{each.id}</b></td><td>{escape(each.figure)}</td>'
        f"<td>{escape(each.shows)}</td><td>{link}</td><td>{_pill(state)}<br><small>{escape(text)}</small></td></tr>"
    )


def _experiment(experiment: Experiment, judged: tuple[Judged, ...], failed: Mapping[str, str]) -> str:
    rows = "".join(_rule(each) for each in judged)
    used = {folder: result for each in judged if each.found for folder, result in (each.found,)}
    plots = "".join(_plots(folder, result) for folder, result in used.items())
    trouble = (
        f'<p class="bad">could not be run: {escape(failed[experiment.name])}</p>' if experiment.name in failed else ""
    )
    commands = "".join(f"<p><code>{escape(command_of(result))}</code></p>" for result in used.values())
    commands = commands or f"<p><small>Run it: <code>nearcast lab run {escape(experiment.name)}</code></small></p>"
    return (
        f'<article id="{escape(experiment.name)}"><h3>{escape(experiment.name)}</h3>'
        f"<p>{escape(experiment.summary)} <small>({escape(experiment.paper)})</small></p>{trouble}"
        "<table><thead><tr><th>Claim</th><th>Statement</th><th>Rule</th><th>Measured</th><th></th><th>Run</th></tr></thead>"
        f"<tbody>{rows}</tbody></table>{commands}{plots}</article>"
    )


def _rule(each: Judged) -> str:
    one, claim = each.expectation, each.claim
    measured = "" if claim is None else ("not measured" if claim.measured is None else f"{claim.measured:.4g}")
    run = "" if each.found is None else _how(each.found[1])
    return (
        f"<tr><td>{escape(one.id)}</td><td>{escape(one.statement)}</td><td><code>{escape(one.expected)}</code></td>"
        f'<td class="num">{measured}</td><td>{_pill(each.state)}</td><td><small>{escape(run)}</small></td></tr>'
    )


def _how(result: Result) -> str:
    return f"{result.mode}{', quick' if result.quick else ''}, seed {result.seed}"


def command_of(result: Result) -> str:
    """What was typed, as far as the result knows: earlier ones did not say which options they had."""
    if result.command:
        return result.command
    quick = " --quick" if result.quick else ""
    return f"nearcast lab run {result.experiment} --mode {result.mode} --seed {result.seed}{quick}"


def _plots(folder: Path, result: Result) -> str:
    found = []
    for name in result.artifacts:
        if name.endswith(".png"):
            data = base64.b64encode((folder / name).read_bytes()).decode()
            text = f"{result.experiment}: {name.removesuffix('.png').replace('_', ' ')}"
            found.append(
                f'<figure><img alt="{escape(text)}" src="data:image/png;base64,{data}">'
                f"<figcaption>{escape(text)} ({escape(_how(result))})</figcaption></figure>"
            )
    return f'<div class="plots">{"".join(found)}</div>' if found else ""


def _pill(state: str) -> str:
    return f'<span class="pill {_CLASS[state]}">{_WORD[state]}</span>'


_CLASS = {"holds": "good", "does not hold": "bad", "not run": "open"}
_WORD = {"holds": "✓ holds", "does not hold": "✕ does not hold", "not run": "not run"}

_HEAD = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>nearcast: lab report</title><style>{style}</style></head>"""
