"""Which intervals a command gives: those that were asked for, of those that a checkpoint is calibrated for."""

from collections.abc import Iterable, Sequence

from forecast.apps.common.seen_rows import train_again
from forecast.bounds import PER_CENT
from forecast.checkpoint.load import Checkpoint
from forecast.checkpoint.record import CalibrationState
from forecast.errors import UserError
from forecast.evaluation.conformal import Calibration, Unrest, blocks_needed
from forecast.evaluation.scored_intervals import Intervals, name_of, windows_needed


def levels_of(level: Sequence[float]) -> tuple[float, ...]:
    """The levels in per cent, ascending, each once. UserError for what is none."""
    if isinstance(level, str | bytes) or not isinstance(level, Iterable):
        raise UserError(f"level={level!r}: name the levels in per cent, as level=[80,95]")
    bad = next((value for value in level if not isinstance(value, int | float) or not PER_CENT.holds(value)), None)
    if bad is not None:
        raise UserError(f"level: {bad!r} {PER_CENT.message}")
    return tuple(sorted({float(value) for value in level}))


def written(level: Sequence[float]) -> str:
    """Levels as a command has them: [80,95]."""
    return f"[{','.join(map(name_of, level))}]"


def calibration_of(state: CalibrationState, targets: Sequence[int]) -> Calibration:
    """The calibration whose `state` this is. targets: the numbers of the target columns."""
    return Calibration(
        levels=tuple(map(float, state["levels"])),
        margins=state["margins"],
        unrest=Unrest(rows=state["rows"], period=state["period"], targets=tuple(targets), typical=state["typical"]),
        windows=state["windows"],
        blocks=state["blocks"],
        crossed=state["parts"] > 1,
    )


def wanted(checkpoint: Checkpoint, *, how: str | None = None, level: Sequence[float] | None = None) -> Intervals | None:
    """The intervals of an evaluation; None for none. how, level: as typed, None: as in training.

    UserError for levels that were typed and cannot be given.
    """
    how = how or checkpoint.config.calibration
    state, data = checkpoint.record.calibration, checkpoint.data
    targets = [data["columns"].index(name) for name in data["targets"]]
    calibration = None if state is None else calibration_of(state, targets)
    if how == "none" or (level is not None and not level):
        return None
    if calibration is None:
        if level is not None:
            raise UserError(
                f"ckpt_path={checkpoint.path} has no calibrated intervals: it was trained with calibration=none, by an "
                "older program, or with too few validation windows. Leave level out, or train again: "
                f"{train_again(checkpoint)}"
            )
        return None
    if level is not None:
        levels = levels_of(level)
        check_calibrated(checkpoint, calibration, levels)
    else:
        usual = levels_of(checkpoint.config.level)
        levels = tuple(number for number in usual if number in calibration.levels)
    return Intervals(calibration=calibration, wanted_levels=levels, adaptive=how == "adaptive")


def check_calibrated(checkpoint: Checkpoint, calibration: Calibration, levels: Sequence[float]) -> None:
    """UserError for levels that a calibration does not have."""
    if not (missing := [number for number in levels if number not in calibration.levels]):
        return
    few = [number for number in missing if blocks_needed(number) > calibration.blocks]
    if few:
        raise UserError(
            f"level={written(levels)}: intervals of {windows_needed(few)} validation windows that do not overlap, and "
            f"the model was calibrated on {calibration.blocks}. Ask for lower levels, or train with more validation "
            "rows."
        )
    whole = [int(number) if number == int(number) else number for number in levels]
    calibrated = ", ".join(map(name_of, calibration.levels))
    raise UserError(
        f"level={written(levels)}: {checkpoint.path} is calibrated for {calibrated} %. "
        f"Ask for these, or train with them: {train_again(checkpoint, level=whole)}"
    )
