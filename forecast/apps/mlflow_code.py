"""The model of an MLflow folder, run by MLflow from a copy of this file: rows in, forecasts out, by this package."""

from collections.abc import Mapping

import mlflow
import pandas as pd
from mlflow.pyfunc import PythonModel, PythonModelContext

from forecast.apps.forecaster import Forecaster
from forecast.errors import UserError


class ServedForecaster(PythonModel):  # type: ignore[misc, unused-ignore]  # without MLflow its class is of no type
    """A `Forecaster` as MLflow serves it."""

    def load_context(self, context: PythonModelContext) -> None:
        """Reads the checkpoint; nothing in it is executed."""
        self.forecaster = Forecaster.load(context.artifacts["checkpoint"], device="cpu")

    def predict(
        self, context: PythonModelContext, model_input: pd.DataFrame, params: Mapping[str, list[float]] | None = None
    ) -> pd.DataFrame:
        """The steps after the last row of a table; params: `level` of intervals in per cent.

        Raises UserError for a table that is none to forecast from.
        """
        del context
        time = self.forecaster.source().time_name
        if isinstance(time, str) and time in model_input and not pd.api.types.is_numeric_dtype(model_input[time]):
            try:
                model_input = model_input.assign(**{time: pd.to_datetime(model_input[time])})  # words, in JSON
            except ValueError as error:
                raise UserError(
                    f"column '{time}' holds no times: {error}. Write them as 2024-01-31T23:00:00."
                ) from error
        forecast: pd.DataFrame = self.forecaster.predict(model_input, level=(params or {}).get("level"))
        return forecast


mlflow.models.set_model(ServedForecaster())
