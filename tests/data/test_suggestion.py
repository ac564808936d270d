"""A refusal of data with too few rows for its windows names the words with which they train."""

import numpy as np
import pandas as pd
import pytest

from forecast.apps.common.training_data import read_data
from forecast.config.run_config import composed
from forecast.data.sources import Source
from forecast.errors import UserError


def data_of(words):
    config = composed(words).config
    return read_data(config.data.build(Source), config)


@pytest.mark.parametrize("lengths", [[36], [40, 40, 30, 4]])
def test_the_words_of_the_refusal_train(tmp_path, lengths):
    dates, noise = pd.date_range("2015-01-01", periods=max(lengths), freq="MS"), np.random.default_rng(0)
    tables = [pd.DataFrame({"date": dates[:n], "y": noise.normal(size=n)}) for n in lengths]
    parts = [part.assign(id=f"s{number}") for number, part in enumerate(tables)]
    pd.concat(parts).to_csv(tmp_path / "my.csv", index=False)
    panel = ["data.id_column=id"] if len(lengths) > 1 else ["data.drop=[id]"]
    words = ["model=ridge", "data=csv", f"data.path={tmp_path / 'my.csv'}", "pred_len=12", "label_len=0", *panel]
    with pytest.raises(UserError) as refused:
        data_of([*words, "seq_len=24"])
    data = data_of([*words, *str(refused.value).partition("For these rows: ")[2].split()])
    assert data.validation_judges and len(data.windows("val"))
