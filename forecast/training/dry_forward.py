"""One window through a fresh model, so that sizes that cannot work together are refused before the training."""

import torch

from forecast.errors import UserError
from forecast.models.base import ForecastModel


@torch.inference_mode()
def dry_forward(model: ForecastModel) -> None:
    """Forecasts from a window of zeros; the model, its mode and the random generators stay as they were.

    Raises UserError with the words of the part that refuses, such as a bucket longer than its sequence.
    """
    window = model.window
    past, past_known = torch.zeros(1, window.seq_len, window.n_columns), torch.zeros(1, window.seq_len, window.n_known)
    future_known = torch.zeros(1, window.pred_len, window.n_known)
    training = model.training
    try:
        with torch.random.fork_rng(devices=[]):
            model.eval()(past, past_known, future_known)
    except ValueError as error:
        raise UserError(str(error)) from error
    finally:
        model.train(training)
