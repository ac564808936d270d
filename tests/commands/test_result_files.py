"""The files of an evaluation."""

from forecast.commands.results import steps_csv


def test_the_steps_are_counted_from_one():
    text = steps_csv({"mse_scaled": [0.5, 0.12345678], "a,b": [1.0, float("nan")]})
    assert text == 'step,mse_scaled,"a,b"\n1,0.500000,1.000000\n2,0.123457,nan\n'
