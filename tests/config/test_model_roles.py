"""A role that a model cannot use is refused before data are read."""

import pytest
from config.composed import composed

from forecast.config.check import ROLES, check_config
from forecast.config.compose import options
from forecast.errors import UserError

CSV = ["data=csv", "data.path=README.md", "data.id_column=id"]
NAIVE = ("last_value", "seasonal_naive", "season_mean", "train_mean")
ALONE = ("dlinear", "nlinear", *NAIVE, "smoothing", "theta", "ets", "arima")
REFUSED = {
    **{(name, role): "columns" if role != "static" else "facts of a series" for name in ALONE for role in ROLES},
    **{(name, "past"): "columns that are observed beside the targets" for name in ("ridge", "boosted_trees")},
}
MODELS = options("model")


def refusal(model, *keys):
    try:
        needs = ["model.runs=[RUN]"] if model == "weighted_ensemble" else []
        check_config(composed(*CSV, f"model={model}", *needs, *keys))
    except UserError as error:
        return [line for line in str(error).splitlines() if "statsforecast" not in line]
    return []


@pytest.mark.parametrize("model", MODELS)
def test_each_model_takes_a_role_or_refuses_it(model):
    for role in ROLES:
        found = refusal(model, f"data.{role}=[a,b]")
        assert bool(found) == ((model, role) in REFUSED)
        if found:
            (line,) = (line for line in found if f"data.{role}" in line)
            assert f"cannot use {REFUSED[model, role]}" in line and "['a', 'b']" in line


def test_what_is_advised_is_accepted():
    assert "say model=informer_plus, which can" in refusal("dlinear", "data.past=[a]")[-1]
    assert not refusal("informer_plus", "data.past=[a]", "data.known=[b]", "data.static=[c]")
    assert not refusal("dlinear", "data.known=[]", "data.target=[a,b]")


def test_stepwise_decoding_takes_one_target_of_several():
    assert not refusal("informer", "model.decode=autoregressive", "attention=full", "data.features=MS")


def test_a_class_of_the_users_own_takes_every_role_unless_it_says_otherwise():
    from forecast.models.base import ForecastModel

    class Own(ForecastModel):
        pass

    assert Own.roles == set(ROLES)
