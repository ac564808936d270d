"""What the pictures of a comparison show."""

import numpy as np
import pytest
from comparison.folders import edit_json, make_run, wave

from forecast.comparison.pictures import comparison_figures, pareto
from forecast.comparison.rows import comparisons, read_folder
from forecast.report.figures import save


@pytest.fixture
def drawn(tmp_path):
    costs = {"full": (0.5, 10, 300), "prob": (0.4, 20, 100), "lsh": (0.6, 30, 200)}
    for number, (name, (level, seconds, memory)) in enumerate(costs.items()):
        for seed in (1, 2):
            options = {"seed": seed, "number": number, "seconds": seconds, "memory": memory, "attention": name}
            make_run(tmp_path / f"{name}{seed}", errors=wave(level + 0.01 * seed), **options)
    (comparison,) = comparisons(read_folder(tmp_path))
    return comparison_figures(comparison)


def test_all_four_are_drawn(drawn):
    assert list(drawn) == ["errors.png", "cost.png", "steps.png", "forecasts.png"]


def test_errors_best_above_with_a_dot_a_seed_and_near_baselines(drawn):
    (axes,) = drawn["errors.png"].axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["lsh", "full", "prob"]
    dots = [line for line in axes.lines if line.get_marker() == "o"]
    assert [len(line.get_xdata()) for line in dots] == [2, 2, 2]
    np.testing.assert_allclose(dots[2].get_xdata(), [wave(0.41).mean(), wave(0.42).mean()])
    legend = [text.get_text() for text in drawn["errors.png"].legends[0].get_texts()]
    assert legend == ["last value 0.900", "seasonal naive 0.700", "closed-form NLinear 0.400", "ridge 0.350"]


def test_the_front_joins_what_nothing_beats(drawn):
    assert pareto([(3, 1.0), (1, 3.0), (2, 4.0), (4, 1.0), (2, 2.0)]) == [(1, 3.0), (2, 2.0), (3, 1.0)]
    expected = ([10, 20], [100])  # seconds: full is cheap, prob is good, lsh neither; memory: prob is best in both
    for axes, front in zip(drawn["cost.png"].axes, expected, strict=True):
        (line,) = [line for line in axes.lines if line.get_drawstyle() == "steps-post"]
        assert list(line.get_xdata()) == front


def test_steps_are_means_over_seeds_from_one_on(drawn):
    (axes,) = drawn["steps.png"].axes
    np.testing.assert_allclose(axes.lines[0].get_xydata(), [[1, 0.1], [2, 0.2], [3, 0.3]])
    assert [line.get_label() for line in axes.lines] == ["full", "prob", "lsh", "ridge"]  # the best one


def test_forecasts_of_all_rows_stand_on_the_same_windows(drawn):
    axes = drawn["forecasts.png"].axes
    assert len(axes) == 2  # one window, two columns
    assert [line.get_label() for line in axes[0].lines] == ["truth", "full", "prob", "lsh"]
    assert axes[0].get_title() == "from 2020-01-01 11:00"  # row 4 and seven past hours
    np.testing.assert_allclose(axes[1].lines[1].get_ydata(), [wave(0.51).mean()] * 3)


@pytest.mark.parametrize(("target", "shown"), [("a", ["a", "b"]), (None, ["b", "a"])])
def test_the_target_is_drawn_first(tmp_path, target, shown):
    folder = make_run(tmp_path / "run", errors=wave(0.5))
    edit_json(folder / "metrics.json", lambda metrics: metrics.update(target=target))
    (comparison,) = comparisons(read_folder(tmp_path))
    axes = comparison_figures(comparison)["forecasts.png"].axes
    assert [one.get_ylabel().split("\n")[0] for one in axes] == shown


def test_files_that_are_missing_leave_their_picture_out(tmp_path):
    folder = make_run(tmp_path / "run", errors=wave(0.5))
    (folder / "metrics_by_step.csv").unlink()
    (folder / "forecasts.npz").unlink()
    (comparison,) = comparisons(read_folder(tmp_path))
    assert list(comparison_figures(comparison)) == ["errors.png", "cost.png"]


def test_names_of_rows_are_no_formulas_and_none_is_hidden_or_squeezes_the_picture(tmp_path):
    names = ["$\\frac{ and $ more", "_hidden", "a\x1b[2J\nb", "温度", "n" * 600]
    for number, name in enumerate(names):
        make_run(tmp_path / f"run{number}", errors=wave(0.5), number=number, data="$\\x{$", attention="full")
        edit_json(tmp_path / f"run{number}/run.json", lambda info, n=name: {**info, "overrides": [f"attention={n}"]})
    (comparison,) = comparisons(read_folder(tmp_path))
    shown = ["$\\frac{ and $ more", " _hidden", r"a\x1b[2J\nb", "温度", "n" * 40 + "…"]
    for name, figure in comparison_figures(comparison).items():
        save(figure, tmp_path / name)  # raises for a formula that is none
        texts = [text.get_text() for text in figure.legends[0].get_texts()]
        assert texts[name == "forecasts.png" :][:5] == shown or name == "errors.png"  # there the truth is first
