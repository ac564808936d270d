"""The reliability curve of a run: how often its intervals held the truth."""

from pathlib import Path

from matplotlib.ticker import PercentFormatter

from forecast.report.drawn import STYLES
from forecast.report.figures import blank_figure, lighten, save
from forecast.run_folder.shapes import Metrics, block_of


def draw_reliability(path: Path, metrics: Metrics, split: str) -> None:
    """The reliability curve: at each level the share of truths that its intervals held, beside the diagonal."""
    intervals = block_of(metrics, split)["intervals"]
    assert intervals is not None
    shares = {float(level): 100.0 * (share or 0.0) for level, share in intervals["reliability"].items()}
    figure = blank_figure(5.2, 4.8, f"{metrics['model']} on {metrics['data']}: how often intervals held the truth")
    axes = figure.add_subplot()
    axes.plot([0, 100], [0, 100], label="as they say", **STYLES["past"])
    axes.plot(list(shares), list(shares.values()), marker="o", markersize=4, label=split, **STYLES["forecast"])
    axes.set_xlabel("level of the interval")
    axes.set_ylabel(f"share of the truths of {split} inside")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(PercentFormatter(decimals=0))
    axes.set_xlim(0, 100)
    axes.set_ylim(0, 100)
    axes.set_aspect("equal")
    lighten(axes)
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    save(figure, path)
