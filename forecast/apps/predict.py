"""What `forecast predict` does: the steps after the end of every series of a file, as a table and a picture."""

from pathlib import Path

from omegaconf import DictConfig

from forecast.apps.common.command import Answer
from forecast.apps.common.continuation import report_far_series, whole_table
from forecast.apps.common.inputs import check_horizon, find_device
from forecast.apps.common.outputs import checked_output, keep_others
from forecast.apps.common.scoring import forecast_files, report_files, scoring_of, shard_of, with_pattern
from forecast.checkpoint.load import load_checkpoint
from forecast.config.check import read_settings
from forecast.config.settings import PredictSettings
from forecast.data.forecast_files import beside, read_part
from forecast.data.writing import ENDINGS
from forecast.errors import UserError
from forecast.evaluation.predict import FEW_ROWS
from forecast.report.verdict import verdict
from forecast.run_folder import read_run, run_of
from forecast.text.terminal import say


def predict(cfg: DictConfig) -> Answer:
    """Forecasts the steps after the end of every series of a file, or one part of them; writes them and a picture."""
    settings = read_settings(cfg, PredictSettings)
    device, shard = find_device(settings.device), shard_of(settings.shard)
    output, on_ray = checked_output(settings.output), settings.engine == "ray"
    if on_ray:
        settings = with_pattern(settings)
    picture = output.with_suffix(".png") if shard == (1, 1) and not on_ray else None
    checkpoint = load_checkpoint(settings.ckpt_path)
    check_horizon(checkpoint, settings.pred_len)
    check_files(settings, [path for path in (output, beside(output), picture) if path is not None])
    rows = frame = None
    if on_ray:
        part = forecast_files(settings, checkpoint, output, device=device)
        report_files(part)
    else:
        scoring = scoring_of(settings, checkpoint, device=device)
        part, frame = scoring.write(output, picture), scoring.ends.frame
        report_far_series(scoring.ends, part.far)
        if picture is not None and part.rows <= FEW_ROWS:  # which --json prints
            rows = whole_table(scoring.table, scoring.ends.blocks(0, len(scoring.ends.series)))
    steps, count = checkpoint.config.pred_len, part.stop - part.first
    where = f"are in {output}"
    if rows is not None and frame is not None and count == 1:
        times = rows[frame.time_column]
        say(f"{steps} steps from {times.iloc[0]} to {times.iloc[-1]} {where}, drawn in {picture}.")
    else:
        first = "" if shard == (1, 1) else f" part {shard[0]} of {shard[1]},"
        drawn = f", some drawn in {picture}" if picture else ""
        say(f"{count} series,{first} {steps} steps after the end of each, {where}{drawn}.")
    if sentences := verdict_of(checkpoint.path):
        say("\n".join(["best.ckpt of this run on its test windows:", *sentences]))
    if rows is not None and frame is not None and not frame.without_calendar:
        rows = rows.assign(**{frame.time_column: rows[frame.time_column].astype(str)})
    return Answer(
        {
            "checkpoint": str(checkpoint.path),
            "output": str(output),
            "picture": None if picture is None else str(picture),
            "frequency": checkpoint.data["freq"] if frame is None else frame.freq,
            "shard": "{}/{}".format(*shard),
            "series": count,
            "left_out": part.run["left_out"],
            "unseen": part.run["unseen"],
            "row_count": part.rows,
            "rows": None if rows is None else rows.to_dict("records"),
            "verdict": sentences,
        }
    )


def check_files(settings: PredictSettings, outputs: list[Path]) -> None:
    """UserError where an output is somebody else's, or is read: with overwrite=true the history would be lost."""
    shard, key = shard_of(settings.shard), f"output={settings.output}"
    for name, read in (("data.path", settings.data.path), ("future", settings.future)):
        if read and Path(read).absolute() in [output.absolute() for output in outputs]:
            raise UserError(f"{key}: {name} is read from there. Choose another name for the forecast")
    before = read_part(outputs[0])
    ours = settings.overwrite or (before is not None and before.shard == shard)
    like = "a whole forecast" if shard == (1, 1) else f"part {shard[0]} of {shard[1]} of a forecast"
    namesakes = [read_part(outputs[0].with_suffix(ending)) for ending in ENDINGS]
    if any(part is not None and part.shard == (1, 1) for part in namesakes):  # the picture is of one of them
        outputs = outputs[:2]
    keep_others(outputs, ours=ours, key=key, like=like)


def verdict_of(path: Path) -> list[str]:
    """What is said of the run that made a checkpoint; nothing where its metrics.json is gone, or is no such file."""
    metrics = read_run(run_of(path)).metrics
    return verdict(metrics, "test") if metrics else []
