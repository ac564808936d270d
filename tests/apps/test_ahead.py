"""What the page of `forecast auto` shows first: the forecast after the data, of one series or of many."""

import numpy as np
import pandas as pd
import pytest
from program import call

from forecast import Forecaster
from forecast.apps.auto.steps import SHOWN, ahead
from forecast.report.page.charts import forecasts_chart

L, P, ROWS = 11, 3, 211
WORDS = ["model=ridge", f"seq_len={L}", f"pred_len={P}", "logger=none", "level=[80]", "data=csv"]


def table(rows=ROWS, seed=0):
    steps, noise = np.arange(rows), np.random.default_rng(seed).normal(size=rows)
    times = pd.date_range("2022-01-01", periods=rows, freq="D")
    promo = (steps % 5 == 0).astype(float)
    return pd.DataFrame({"day": times, "sales": np.sin(steps / 3) + promo + 0.1 * noise, "promo": promo})


@pytest.fixture(scope="module", params=["a series", "a panel"])
def trained(request, tmp_path_factory):
    """A checkpoint that is told a column, the file of that, and the forecast as `forecast predict` writes it."""
    folder = tmp_path_factory.mktemp("ahead")
    parts, words = [("", table())], ["data.target=sales", "data.known=[promo]", "data.time_column=day"]
    if request.param == "a panel":
        parts = [(f"s{i:02}", table(ROWS - i, seed=i)) for i in range(SHOWN + 4)]
        words.append("data.id_column=shop")
    whole = [one.assign(shop=name) if name else one for name, one in parts]
    plans = [
        pd.concat([one["day"].tail(P) + pd.Timedelta(days=P), one.tail(P).drop(columns=["day", "sales"])], axis=1)
        for one in whole
    ]
    pd.concat(whole).to_csv(folder / "own.csv", index=False)
    pd.concat(plans).to_csv(folder / "plan.csv", index=False)
    call("train", *WORDS, *words, f"data.path={folder / 'own.csv'}", f"hydra.run.dir={folder}")
    return folder, whole


def test_it_is_the_forecast_with_its_intervals_after_the_end_of_the_history(trained):
    folder, whole = trained
    checkpoint, plan = folder / "checkpoints" / "best.ckpt", str(folder / "plan.csv")
    found = ahead(checkpoint, future=plan, level=[80])
    series = found.get("series")
    count = 1 if series is None else SHOWN
    assert found["past"].shape == (count, L, 1) and found["forecast"].shape == (count, P, 1)
    assert found["lower"].shape == found["upper"].shape == (count, P, 1, 1) and found["levels"].tolist() == [80]
    expected = Forecaster.load(checkpoint).predict(future=plan, level=[80])
    for number in range(count):
        history, after = whole[0], expected
        if series is not None:
            history = next(one for one in whole if one["shop"].iloc[0] == series[number])
            after = expected[expected["shop"] == series[number]]
        np.testing.assert_allclose(found["past"][number, :, 0], history["sales"][-L:], rtol=1e-5)
        for name, values in (("sales", found["forecast"]), ("sales-lo-80", found["lower"][..., 0])):
            np.testing.assert_allclose(values[number, :, 0], after[name], rtol=1e-3, atol=1e-4)
        assert list(pd.DatetimeIndex(found["timestamps"][number])[-P:]) == list(after["day"])


def test_its_picture_has_no_truth(trained):
    folder, _ = trained
    found = ahead(folder / "checkpoints" / "best.ckpt", future=str(folder / "plan.csv"), level=[80])
    made, _ = forecasts_chart(found, None, "sales", title="The forecast")
    assert [line["style"] for line in made["lines"]] == ["past", "forecast"] and made["title"] == "The forecast"
    assert {len(panel["lines"]) for panel in made["panels"]} == {2}
    assert {len(panel["bands"]) for panel in made["panels"]} == {1}
