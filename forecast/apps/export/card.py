"""The model card of an export: what the model is, how good it was, how to call it, its limits; no row of its data."""

from collections.abc import Mapping, Sequence

import numpy as np

import forecast
from forecast.apps.common.intervals import saved_calibration
from forecast.apps.export.program import noise_times
from forecast.checkpoint.load import Checkpoint
from forecast.data.reading.time_formats import ISO
from forecast.evaluation.scored_intervals import name_of
from forecast.report.forecasters import forecasters
from forecast.report.tables import short_number
from forecast.report.verdict import TRAIN, verdict
from forecast.run_folder import read_run, run_of
from forecast.text.documents import as_markdown
from forecast.text.terminal import harmless

LEVEL = 95.0  # of the intervals that the example prints, or the highest below

PROGRAM_EXAMPLE = """\
```python
import torch

program = torch.export.load("model.pt2").module()  # can execute what the file holds: trust it first
forecast = program(past, past_known, future_known)  # scaled: config.json says of each how it is made
```
"""
ONNX_EXAMPLE = """\
With `pip install numpy onnxruntime`, as `python example.py history.csv`:

```python
import csv, json, sys
{imports}
import numpy as np
import onnxruntime

about = json.load(open("config.json"))
rows = list(csv.DictReader(open(sys.argv[1]), delimiter={separator!r}))[-{length}:]
past = np.array([[float(row[name]{decimal}) for name in about["columns"][:{n_columns}]] for row in rows])
time = np.array([{cell} for row in rows], "datetime64[s]")
{future}
inputs = {{"past": past[None], "time": np.append(time, future).astype("int64")[None]}}
{known}outputs = [part[0] for part in onnxruntime.InferenceSession("model.onnx").run(None, inputs)]
print("time", *({names}), sep=",")
for step, values in zip(future, {values}):
    print(step, *values.ravel().round(6), sep=",")
```
"""
MLFLOW_EXAMPLE = """\
`mlflow models serve -m mlflow --env-manager local` answers at /invocations, and in Python:

```python
import mlflow

model = mlflow.pyfunc.load_model("mlflow")
forecast = model.predict(table)  # a DataFrame of the last rows with their time; params={"level": [80.0, 95.0]}
```
"""


def model_card(checkpoint: Checkpoint, format: str, entry: Mapping[str, object]) -> str:
    """README.md of an export. format: what was written beside the weights; entry: what config.json says of it."""
    data, config, length = checkpoint.data, checkpoint.config, checkpoint.model().look_back
    model = str(checkpoint.record.choices.get("model") or type(checkpoint.model()).__name__)
    calibration, trained_by = saved_calibration(checkpoint), checkpoint.record.versions
    rows = {
        "reads": f"the last {length} rows of {_names(data['columns'])}",
        "forecasts": f"the next {config.pred_len} steps of {_names(data['targets'])}",
        "frequency": data["freq"],
        "features": checkpoint.features,
        "data": as_markdown(data["name"]),
        "trained until": checkpoint.trained_until,
        "parameters": f"{sum(weight.numel() for weight in checkpoint.weights.values()):,}",
        "intervals": "none" if calibration is None else f"at {', '.join(map(name_of, calibration.levels))} %",
        "made by": f"forecast {trained_by.get('forecast', '?')} with torch {trained_by.get('torch', '?')}; exported by "
        f"forecast {forecast.__version__}",
    }
    call = f"There is no file that forecasts: {harmless(str(entry.get('refused')))}\n"
    if "refused" not in entry:
        call = {"program": PROGRAM_EXAMPLE, "mlflow": MLFLOW_EXAMPLE}.get(format) or onnx_example(checkpoint)
    parts = [
        f"# {as_markdown(model)} on {as_markdown(data['name'])}\n",
        "| | |\n|---|---|",
        *(f"| {key} | {value} |" for key, value in rows.items()),
        "\n## How good it is\n",
        *(figures(checkpoint) or ["Its run left no test figures beside it."]),
        "\n## How it is called\n",
        call,
        "## Limits\n",
        "- Its figures hold for data like those it was trained on; of a series that has moved away they say nothing.",
        "- Intervals hold their level over many forecasts, not for each one."
        if calibration
        else "- It has no intervals.",
        f"- It reads {length} rows, none missing, of the frequency {data['freq']}.",
        "- Load it only from somebody you trust: the sums in config.json say that a file is whole, not whose it is.",
    ]
    return "\n".join(parts) + "\n"


def figures(checkpoint: Checkpoint) -> list[str]:
    """The test errors beside the baselines, the coverage and the verdict of the run; nothing where there are none."""
    metrics = read_run(run_of(checkpoint.path)).metrics
    if not metrics:
        return []
    rows = [
        (f"{row.name} ({row.note})" if row.note else row.name, row.mse, row.error("scaled", "mae"))
        for row in forecasters(metrics, "test")
    ]
    levels = (metrics["test"].get("intervals") or {"levels": {}})["levels"]
    held = {level: row["coverage"] for level, row in levels.items() if row["coverage"] is not None}
    # without the command, which names a path on the machine of the training
    sentences = [harmless(text.partition(f": {TRAIN} ")[0]).rstrip(".") for text in verdict(metrics, "test")]
    which = "" if checkpoint.refit is None else ", before it was trained once more on all rows"
    covered = ", ".join(f"those of {level} % {100 * share:.0f} %" for level, share in held.items())
    return [
        f"best.ckpt of its run on the test windows{which}, in scaled units:\n",
        "| | MSE | MAE |\n|---|---|---|",
        *(f"| {as_markdown(name)} | {short_number(mse)} | {short_number(mae)} |" for name, mse, mae in rows),
        "",
        *([f"Of the truths its intervals held: {covered}.\n"] if covered else []),
        *(f"    {sentence}." for sentence in sentences),  # indented, nothing in it acts
    ]


def onnx_example(checkpoint: Checkpoint) -> str:
    """A script that needs no more than numpy and onnxruntime, for files like the one trained on."""
    data, model, calibration = checkpoint.data, checkpoint.model(), saved_calibration(checkpoint)
    keys, how = checkpoint.config.data.node, data.get("time_format")
    column, decimal = keys.get("time_column", "date"), str(keys.get("decimal", "."))
    if not isinstance(column, str) or (how not in (None, ISO) and "%" not in str(how)) or keys.get("thousands"):
        return "config.json names its inputs and outputs; no script here reads files like the one trained on.\n"
    cell, imports = f"row[{column!r}]", ""
    if how not in (None, ISO):
        cell, imports = f"datetime.strptime({cell}, {how!r})", "from datetime import datetime\n"
    steps = np.unique(np.diff(noise_times(checkpoint, 400).as_unit("s").asi8))
    future = f'future = time[-1] + np.arange(1, {checkpoint.config.pred_len + 1}) * np.timedelta64({steps[0]}, "s")'
    if len(steps) > 1:
        future = (
            f'future = np.array(sys.argv[2:], "datetime64[s]")  # the {checkpoint.config.pred_len} times that follow'
        )
    names, values, n_columns = 'about["targets"]', "outputs[0]", model.window.n_columns
    if calibration is not None:
        level = max((level for level in calibration.levels if level <= LEVEL), default=calibration.levels[0])
        shown = name_of(level)
        names = f'f"{{name}}{{end}}" for name in about["targets"] for end in ("", "-lo-{shown}", "-hi-{shown}")'
        place = calibration.levels.index(level)
        values = f"np.stack([outputs[0], *(ends[..., {place}] for ends in outputs[1:])], -1)"
    known = ""
    if n_columns < len(data["columns"]):
        shape = f"{model.look_back + checkpoint.config.pred_len}, {len(data['columns']) - n_columns}"
        known = f'inputs["known"] = np.zeros((1, {shape}))  # put them here: config.json says which\n'
    return ONNX_EXAMPLE.format(
        imports=imports.rstrip(),
        separator=str(keys.get("separator", ",")),
        length=model.look_back,
        decimal="" if decimal == "." else f'.replace({decimal!r}, ".")',
        n_columns=n_columns,
        cell=cell,
        future=future,
        known=known,
        names=names,
        values=values,
    ).replace("sys\n\nimport", "sys\nimport")


def _names(columns: Sequence[str], most: int = 12) -> str:
    more = f" and {len(columns) - most} more" if len(columns) > most else ""
    return ", ".join(map(as_markdown, columns[:most])) + more
