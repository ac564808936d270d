"""The leaderboard of an automatic run: what was trained, what it is worth, what was chosen, and why."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from forecast.config.run_config import Monitor
from forecast.jobs import Ended
from forecast.run_folder import checkpoint_path
from forecast.run_folder.shapes import Block, Metrics
from forecast.text.terminal import listed

ENSEMBLE = "weighted_ensemble"
# member.json: `seconds` of the training, `refit_seconds` that one on all rows is expected to take, its number of train
# `windows`, errors on `val` and `test`, and the seconds of each evaluation.
MemberFigures = dict[str, Any]
# What the checkpoint of the ensemble says of itself: `weights`, one a member; of the weighted `mean` and of each of
# `members` the error on the half of the validation windows that did not choose it; `alone`: whether the best of these
# is used in place of the mean, None: too few windows to say; `few`: which intervals they are too few for.
Weighed = dict[str, Any]


def leaderboard(
    members: Mapping[str, MemberFigures],
    left_out: Mapping[str, str],
    weighed: Weighed | None,
    ensemble: Metrics | None,
    *,
    error: Monitor,
) -> list[Block]:
    """A row for each model, the least validation error first, then those that have none.

    members: what member.json says of each, in the order of `weighed`'s weights. left_out: why others have no figures.
    weighed, ensemble: what the weighing gave, and metrics.json of the ensemble; None without one. error: mse or mae,
    scaled units, of both columns of figures; on validation windows those by which the weighing has chosen.
    """
    weights = dict(zip(members, weighed["weights"], strict=True)) if weighed is not None else {}
    losses = (
        [figures["val"]["scaled"][error] for figures in members.values()] if weighed is None else weighed["members"]
    )
    alone = weighed is None or bool(weighed.get("alone")) or sum(weight > 0 for weight in weights.values()) == 1
    best = max(weights, key=weights.__getitem__) if weights else best_of(members, error)
    rows: list[Block] = [
        {
            "model": name,
            "validation": loss,
            "test": figures["test"]["scaled"][error],
            "mase": figures["test"].get("mase"),
            "seconds": figures["seconds"],
            "chosen": alone and name == best,
            "weight": weights.get(name),
        }
        for (name, figures), loss in zip(members.items(), losses, strict=True)
    ]
    if not alone and weighed is not None and ensemble is not None:
        rows.append(
            {
                "model": ENSEMBLE,
                "validation": weighed["mean"],
                "test": ensemble["test"]["scaled"][error],
                "mase": ensemble["test"].get("mase"),
                "seconds": ensemble["cost"].get("train_seconds"),
                "chosen": True,
                "weight": None,
            }
        )
    rows.sort(key=lambda row: row["validation"] or 0.0)
    no_figures = dict.fromkeys(("validation", "test", "mase", "seconds"))
    absent: list[Block] = [
        {"model": name, **no_figures, "chosen": False, "weight": None, "reason": why} for name, why in left_out.items()
    ]
    return [*rows, *absent]


def best_of(members: Mapping[str, MemberFigures], error: Monitor) -> str | None:
    """The member that errs least on validation windows."""
    return min(members, key=lambda name: float(members[name]["val"]["scaled"][error]), default=None)


def training_end(forecast: Ended, final: Path, members: Sequence[Path]) -> str:
    """Up to which row the model of a forecast has learned, in a sentence. members: folders of those with a weight."""
    if forecast.error:
        return "The model has made no forecast."
    time = forecast.value["trained_until"]  # "": the rows are counted
    if final.name != "refit.ckpt":
        return (
            f"The model has learned from {f'the rows up to {time}' if time else 'the train rows'}, and not from those "
            "after it: it could not be trained once more on all rows."
        )
    lacking = [folder.name for folder in members if not checkpoint_path(folder, "refit").is_file()]
    return (
        f"The model has learned from {f'the rows up to {time}, the last' if time else 'all rows'}"
        f"{f'; {listed(lacking)} could not be trained on all of them' if lacking else ''}."
    )


def reason(rows: Sequence[Block], weighed: Weighed | None, *, error: str) -> str:
    """Why that model was chosen, in a sentence."""
    chosen = next((row for row in rows if row["chosen"]), None)
    if chosen is None:
        return "Nothing could be trained."
    judged = "on validation windows, each half of them by what the other half chose"
    if chosen["model"] == ENSEMBLE and weighed is not None:
        shares = sorted(((share, row["model"]) for row in rows if (share := row.get("weight"))), reverse=True)
        # a decimal where a whole number would show a share as 0 or 100 %
        decimals = 0 if shares[-1][0] > 0.005 and shares[0][0] < 0.995 else 1
        named = ", ".join(f"{name} {100 * share:.{decimals}f} %" for share, name in shares)
        loss, best = min((row["validation"] or 0.0, row["model"]) for row in rows if row.get("weight") is not None)
        choice = f"Chosen: the weighted mean of {named}."
        if weighed["alone"] is None:
            less = f", though {best} errs less" if loss < weighed["mean"] else ""
            return f"{choice} The validation windows are too few to choose one of them alone{less}."
        gain = 100 * (1 - weighed["mean"] / loss)
        return f"{choice} Its {error.upper()} is {gain:.1f} % below that of {best} alone, {judged}."
    judged_rows = [row for row in rows if row["validation"] is not None]
    if len(judged_rows) == 1:
        return f"Chosen: {chosen['model']}, as no other model could be trained in the time."
    if weighed is not None:
        why = "In the weighted mean it has all of the weight."
        if weighed["alone"]:
            why = f"The weighted mean of all errs no less {judged}."
        return f"Chosen: {chosen['model']} alone. {why}"
    return f"Chosen: {chosen['model']}, which errs least on validation windows."
