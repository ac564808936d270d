"""Training a model in whichever way its kind is trained."""

from forecast.checkpoint.record import Record
from forecast.data.prepare import Prepared
from forecast.training.closed_form import as_fitted, fit_closed_form
from forecast.training.combined import combine, is_combined
from forecast.training.fit import Plan, Trained, fit
from forecast.training.throughput import Throughput


def fit_model(plan: Plan, data: Prepared, record: Record) -> Trained:
    """By gradient steps, at once, or of finished trainings; raises as `fit`, `fit_closed_form` and `combine` do."""
    if is_combined(plan.config.model):
        return combine(plan, data, record)
    at_once = as_fitted(plan, record.data)
    return fit(plan, data, record, Throughput()) if at_once is None else fit_closed_form(plan, at_once, data, record)
