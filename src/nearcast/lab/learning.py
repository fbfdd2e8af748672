"""Learning curves, as Khare draws them (Figures 2e and 2f)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from nearcast.pipeline.training import Curve

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_curves(curves: Sequence[Curve], figure: "Figure") -> None:
    """A panel per number of topics: dashed what was learned from, solid what was not."""
    counts = sorted({each.topics for each in curves})
    columns = min(3, len(counts)) or 1
    rows = -(-len(counts) // columns) or 1
    panels = figure.subplots(rows, columns, squeeze=False, sharey=True).ravel()
    for axes, topics in zip(panels, counts, strict=False):
        for number, curve in enumerate(each for each in curves if each.topics == topics):
            sizes, learned, others = zip(*curve.points, strict=True)
            axes.set_xscale("log")
            axes.minorticks_off()
            colour, label = f"C{number}", " x ".join(map(str, curve.hidden))
            axes.plot(sizes, others, color=colour, marker="o", markersize=3, label=label)
            axes.plot(sizes, learned, color=colour, linestyle="--", linewidth=1)
            axes.set_xticks(sizes[::2], [str(each) for each in sizes[::2]])
        axes.set_title(f"{topics} topics", fontsize="medium")
    for axes in panels[len(counts) :]:
        axes.set_visible(False)
    for axes in panels[max(0, len(counts) - columns) : len(counts)]:
        axes.set_xlabel("configurations")
    panels[0].set_ylim(bottom=0.0)
    panels[0].legend(fontsize="small", title="layers", title_fontsize="small")
    figure.supylabel("mean error of ln p90 (dashed: of what was learned)", fontsize="medium")
