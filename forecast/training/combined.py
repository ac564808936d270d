"""Several finished trainings on the same rows as one model: `model=weighted_ensemble`."""

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from forecast.checkpoint.load import Checkpoint, load_checkpoint
from forecast.checkpoint.model import build_model, spread_of, window_of
from forecast.checkpoint.record import Record, Stacking
from forecast.config.run_config import Plain, Recipe, RunConfig
from forecast.data.prepare import Prepared
from forecast.errors import UserError
from forecast.evaluation.leakage import check_leakage
from forecast.evaluation.stacking import (
    ENOUGH,
    Loss,
    MemberErrors,
    by_step,
    factors_by_series,
    mean_loss,
    member_errors,
    member_losses,
    stacked,
)
from forecast.models.base import FittedModel
from forecast.models.weighted_ensemble import WeightedEnsemble
from forecast.run_folder import checkpoint_path
from forecast.run_folder.shapes import DataRecord
from forecast.text.overrides import hydra_value
from forecast.training.calibrated import HALVES, chosen_weights, write_half
from forecast.training.checkpoint import write_checkpoint
from forecast.training.fit import CPU, Plan, Trained, fit, fit_closed_form, fitted_cost, make_logger
from forecast.training.record import weights_only_content
from forecast.training.throughput import PeakMemory

log = logging.getLogger(__name__)

# What the trainings of members and their ensemble must have in common, by the keys of the record's `data`.
SHARED: Mapping[Literal["checksum", "targets", "freq", "splits"], str] = {
    "checksum": "the data",
    "targets": "data.target",
    "freq": "data.freq",
    "splits": "data.split",
}


class MemberRun(NamedTuple):
    """A finished training: its run folder, its best checkpoint, and what each half of the val windows chose of it."""

    run: Path
    checkpoint: Checkpoint
    halves: Mapping[str, Mapping[str, Tensor]]

    @property
    def name(self) -> str:
        """The option of the group model."""
        return str(self.checkpoint.record.choices["model"])

    def weights(self, half: str | None) -> Mapping[str, Tensor]:
        """As all val windows chose them, or one half of these."""
        return self.halves.get(half or "", self.checkpoint.weights)


class Weights(NamedTuple):
    """by_block (K, M): of each block of steps. factors (S, M): of these in each series; None: 1 in all."""

    by_block: Tensor
    factors: Tensor | None = None


def is_combined(model: Recipe) -> bool:
    """Whether a model is made of finished trainings."""
    return model.extends(WeightedEnsemble)


def runs_of(model: Recipe) -> list[Path]:
    """The folders of the trainings that an ensemble is made of."""
    runs = model.get("runs")
    return [Path(str(run)) for run in runs] if isinstance(runs, list) else []


def baselines_of(config: RunConfig, data: Prepared) -> Mapping[str, Tensor]:
    """The fitted baselines of a member whose windows are those of an ensemble, ridge included; empty without one."""
    for run in runs_of(config.model):
        member = read_member(run).checkpoint
        same = member.config.seq_len == config.seq_len and member.data["checksum"] == data.frame.checksum
        same = same and member.data["columns"] == list(data.frame.columns)
        if same and "ridge_weight" in member.record.fits:
            return member.record.fits
    return {}


def combine(plan: Plan, data: Prepared, record: Record) -> Trained:
    """Finds the weights of an ensemble, and writes its checkpoint under both names.

    The mean of the members stays where it errs less than each of them does, weighed, or trained, by one half of the
    validation windows and judged on the other, and where these are too few to judge by. Raises UserError
    for runs that do not fit together.
    """
    memory, begin = PeakMemory(), time.perf_counter()
    members = [read_member(run) for run in runs_of(plan.config.model)]
    for member in members:
        check_fits(member, record)
    config = plan.config.with_model({"members": [described(member, record.data) for member in members]})
    facts = data.frame.facts
    by_series = facts is not None and facts.names[-1:] == (data.frame.id_column,)
    config = config.with_model({"by_series": by_series})
    weighing = Weighing(replace(record, config=config.with_model({"blocks": 1})), members, data)
    weights = weighing.weights()
    record = replace(record, config=config.with_model({"blocks": len(weights[None].by_block)}), best_step=0)
    model = with_weights(record, members, weights[None])
    if plan.config.checks.leakage:
        check_leakage(model, data, device=CPU)
    content = weights_only_content(model, replace(record, stacking=weighing.judged))
    for name in ("best", "last"):
        write_checkpoint(checkpoint_path(plan.folder, name), content)
    for half in HALVES:
        write_half(plan.folder, half, with_weights(record, members, weights[half], half=half).state_dict())
    seconds = time.perf_counter() - begin
    for member, share in zip(members, weights[None].by_block.mean(0).tolist(), strict=True):
        log.info("%5.1f %% %s (%s)", 100 * share, member.name, member.run)
    logger = make_logger(plan)
    cost = fitted_cost(seconds, memory)
    return Trained(finished=True, is_first=True, device=CPU, cost=cost, loggers=[logger] if logger else [])


def refitted(held_out: Checkpoint, learnt: Sequence[str]) -> WeightedEnsemble:
    """The ensemble with the weights of its members' refit.ckpt, and its own as they are.

    learnt: the splits that they have learned from. A member without such a refit.ckpt stays as it is, and a warning
    names it; UserError where none has one.
    """
    model = held_out.model()
    assert isinstance(model, WeightedEnsemble)
    used, runs = model.get_buffer("weights").abs().sum(0) > 0, runs_of(held_out.config.model)
    lacking = []
    for member, run, weighs in zip(model.each, runs, used.tolist(), strict=True):
        path = checkpoint_path(run, "refit")
        again = load_checkpoint(path) if weighs and path.is_file() else None
        if again is not None and again.refit is not None and again.refit["rows"] == learnt:
            member.load_state_dict(again.model().state_dict())
        elif weighs:
            lacking.append(str(run))
    if len(lacking) == sum(used.tolist()):
        raise UserError(
            f"refit: no member has a refit.ckpt of {' and '.join(learnt)} rows: {', '.join(lacking)}. Train them with "
            "the same refit= as the ensemble, or the ensemble with refit=false"
        )
    if lacking:
        log.warning("Not trained on more rows, as held out: %s", ", ".join(lacking))
    return model


class Weighing:
    """The weights of members, by all validation windows (None) and by each half of them.

    record: of the ensemble, with its members and one block of steps. judged: the errors of the mean and of each member,
    in each half of the windows as the other half has chosen them, and whether the best member is to stand alone: None
    where the windows of any one series are too few to say, so that the mean stays; known after `weights`. These errors
    are of the same weights for all series.
    """

    def __init__(self, record: Record, members: Sequence[MemberRun], data: Prepared) -> None:
        self.members, self.data, self.record = members, data, record
        self.loss: Loss = record.config.monitor
        self.judged: Stacking | None = None

    def weights(self) -> dict[str | None, Weights]:
        """The weights, those of the best member alone where the mean is no better."""
        errors: dict[str | None, MemberErrors] = {None: self.errors(None)}
        crossed = any(member.halves for member in self.members)
        errors |= {half: self.errors(half) if crossed else errors[None] for half in HALVES}
        middle = len(errors[None].errors) // 2 or None  # one window alone is both halves
        own: dict[str | None, slice] = {None: slice(None), HALVES[0]: slice(middle), HALVES[1]: slice(middle, None)}
        weights = {half: stacked(of_half.some(own[half]), self.loss) for half, of_half in errors.items()}
        judged = {half: errors[half].some(own[HALVES[1 - number]]) for number, half in enumerate(HALVES)}
        means = [mean_loss(of_half, by_step(weights[half], of_half), self.loss) for half, of_half in judged.items()]
        of_members = zip(*(member_losses(of_half, self.loss) for of_half in judged.values()), strict=True)
        mean, losses = sum(means) / len(judged), [sum(pair) / len(judged) for pair in of_members]
        for member, loss in zip(self.members, losses, strict=True):
            log.info("val %s %.4f: %s (%s)", self.loss, loss, member.name, member.run)
        series = int(np.count_nonzero(self.data.windows("val").counts))
        few = errors[None].independent < ENOUGH * max(1, series)
        alone_is_better = None if few else not mean < min(losses)
        self.judged = {"error": self.loss, "mean": mean, "members": losses, "alone": alone_is_better}
        if few:
            log.info("%d validation windows: too few to judge the mean of the members by.", errors[None].independent)
        if not alone_is_better:
            return {half: self.of_series(errors[half].some(own[half]), weights[half]) for half in errors}
        log.info("The mean of the members errs no less on validation windows than the best of them: it stands alone.")
        alone = torch.eye(len(losses), dtype=torch.float64)[[losses.index(min(losses))]]
        return {half: self.of_series(of_half, alone) for half, of_half in errors.items()}

    def of_series(self, errors: MemberErrors, weights: Tensor) -> Weights:
        """These weights, with factors by series where series have them."""
        if errors.series is None:
            return Weights(weights)
        return Weights(weights, factors_by_series(errors, weights, self.loss, self.data.covariate_sizes[-1]))

    def errors(self, half: str | None) -> MemberErrors:
        """Of the members as that half has chosen them."""
        count = len(self.members)
        model = with_weights(self.record, self.members, Weights(torch.full((1, count), 1 / count)), half=half)
        batch_size = self.record.config.data.batch_size
        return member_errors(model, self.data, batch_size=batch_size, device=CPU)


def read_member(run: Path) -> MemberRun:
    """A finished training. Raises UserError where there is none, and for one that no ensemble can have."""
    path = checkpoint_path(run, "best")
    if not path.is_file():
        raise UserError(
            f"model.runs: {run} is no folder of a finished training: it has no checkpoints/best.ckpt. Name the folders "
            "that forecast train wrote, hydra.run.dir=FOLDER"
        )
    checkpoint = load_checkpoint(path)
    if is_combined(checkpoint.config.model):
        runs = hydra_value(list(map(str, runs_of(checkpoint.config.model))))
        raise UserError(f"model.runs: {run} is an ensemble itself. Name its members: model.runs={runs}")
    if spread_of(checkpoint.config.loss) is not None:
        loss = checkpoint.record.choices.get("loss")
        raise UserError(
            f"model.runs: {run} was trained with loss={loss}, and the members of an ensemble forecast one number a "
            "step. Train it with loss=mse or loss=mae; the ensemble gets intervals of its own"
        )
    return MemberRun(run, checkpoint, chosen_weights(run))


def check_fits(member: MemberRun, record: Record) -> None:
    """Raises UserError for a member of other rows, columns or lengths than the ensemble's."""
    ours, theirs, config, trained = record.data, member.checkpoint.data, record.config, member.checkpoint.config
    where = f"model.runs: {member.run} was trained with other values of"
    for key, words in SHARED.items():
        if ours[key] != theirs[key]:
            raise UserError(f"{where} {words} ({theirs[key]}, here {ours[key]}). Give those of the members")
    if trained.pred_len != config.pred_len:
        raise UserError(f"{where} pred_len: say pred_len={trained.pred_len}")
    if trained.encoding != config.encoding:
        raise UserError(f"{where} model.embedding: say model.embedding={trained.encoding}")
    if scale_of(member.checkpoint.record) != scale_of(record):
        raise UserError(f"{where} data.scaling, or of other train rows. Give those of the members")
    lacking = [
        name for name in (*theirs["columns"], *theirs["known"]) if name not in (*ours["columns"], *ours["known"])
    ]
    if lacking:
        raise UserError(f"{where} the columns: it sees {', '.join(lacking)}. Give data.* of the member that sees most")


def scale_of(record: Record) -> list[object]:
    """What brings the targets to scaled units, as plain values."""
    targets = [record.data["columns"].index(name) for name in record.data["targets"]]
    scale = record.series.scale
    return [scale.how, scale.ids.tolist(), *(part[:, targets].tolist() for part in (scale.mean, scale.std))]


def described(member: MemberRun, data: DataRecord) -> Plain:
    """What the ensemble's config says of a member. data: of the ensemble's record."""
    config, theirs = member.checkpoint.config, member.checkpoint.data
    window = window_of(config, theirs)
    fields = {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(window).items()}
    return {
        "name": member.name,
        "model": {**config.model.node, "_partial_": True},
        "window": fields,
        "networks": config.networks,
        "columns": [data["columns"].index(name) for name in theirs["columns"][: window.n_columns]],
        "known": [data["known"].index(name) for name in theirs["known"]],
    }


def with_weights(
    record: Record, members: Sequence[MemberRun], weights: Weights, *, half: str | None = None
) -> WeightedEnsemble:
    """The ensemble of a record that names its members, with their weights and its own, in evaluation mode."""
    model = build_model(record.config, record.data)
    assert isinstance(model, WeightedEnsemble)
    for member_model, member in zip(model.each, members, strict=True):
        member_model.load_state_dict(dict(member.weights(half)))
    model.weights = weights.by_block.float()
    if weights.factors is not None:
        model.factors = weights.factors.float()
    return model.eval().requires_grad_(False)


def fit_model(plan: Plan, data: Prepared, record: Record) -> Trained:
    """By gradient steps, at once, or of finished trainings; raises as `fit`, `fit_closed_form` and `combine` do."""
    if is_combined(plan.config.model):
        return combine(plan, data, record)
    model = build_model(plan.config, record.data)
    if isinstance(model, FittedModel):
        return fit_closed_form(plan, model, data, record)
    return fit(plan, model, data, record)
