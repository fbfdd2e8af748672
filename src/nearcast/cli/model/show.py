"""`nearcast model show`."""

import msgspec

from nearcast.cli.model.files import ModelFile, layers, print_accuracy, read_model
from nearcast.cli.options import AsJson
from nearcast.cli.output import print_json, print_table


def show_model(file: ModelFile, *, as_json: AsJson = False) -> None:
    """Show what a model is of, what it was learned from, and how near it was to runs that it had not seen."""
    model = read_model(file)
    if as_json:
        facts = {name: getattr(model, name) for name in ("name", "format", "rows", "processors", "origin", "accuracy")}
        fits = [{"topics": each.topics, "inputs": each.inputs, "of": layers(model, each.topics)} for each in model.fits]
        print_json({**{key: msgspec.to_builtins(value) for key, value in facts.items()}, "fits": fits})
        return
    of, origin = model.processors, model.origin
    print(f"{model.name}: up to {model.most} topics together; {model.rows:,} rows")
    print(
        f"brokers with {of.cores} core{'s' * (of.cores > 1)}; a message costs {of.overhead_ms:.2f} ms beside its"
        f" interval, and is {of.delay_ms:.2f} ms under way; load lasted {of.lasting_s:g} s"
    )
    runs = ", ".join(f"{count} {source}" for source, count in sorted(origin.runs.items())) or "unknown"
    late = f"; {origin.discarded} discarded, the load generator was late" if origin.discarded else ""
    print(
        f"runs: {runs}{late}; {origin.validation} of them judge it and were not learned from ({origin.digest or '-'})"
    )
    print_table(
        ("topics", "inputs", "of"), [(str(each.topics), each.inputs, layers(model, each.topics)) for each in model.fits]
    )
    if model.accuracy:
        print_accuracy([(model.name, model.accuracy)])
    else:
        print("never judged by real runs: there were none set apart")
