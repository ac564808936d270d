"""From a panel to scaled windows: everything a training, an evaluation or a forecast reads."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from torch import Tensor

from forecast.bounds import CalendarEncoding
from forecast.data.cells import FloatArray, IntArray
from forecast.data.panel.borders import filled_within
from forecast.data.panel.fact_scale import scaled_facts
from forecast.data.panel.frame import PanelFrame
from forecast.data.panel.splits import Origins, PanelRows, check_enough, panel_cuts
from forecast.data.panel.windows import PanelWindows
from forecast.data.scaling import How, Scales
from forecast.data.split import Split
from forecast.data.time_features import time_features
from forecast.data.windows import check_look_back


@dataclass(frozen=True, kw_only=True)
class PanelData:
    """A panel, its scale, its calendar, cut into splits; the counterpart of `prepare.PreparedData`.

    splits: the target rows of each. targets: the numbers of the T target columns. pad: whether a window may begin
    before its series, whose first row is then repeated. calendar (steps, F) float32. season: steps in a season of the
    targets, None where they have none that is known. covariates: the names of the last of the frame's columns, which
    are known in advance: the last of the known features but for the facts of the series. hidden: see `PreparedData`.
    fact_scale (2, G): mean and deviation of the frame's facts. device: where batches are wanted.
    """

    frame: PanelFrame
    splits: dict[str, PanelRows]
    scaler: Scales
    targets: tuple[int, ...]
    seq_len: int
    pred_len: int
    encoding: CalendarEncoding
    pad: bool
    calendar: Tensor
    season: int | None = None
    covariates: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    fact_scale: npt.NDArray[np.float64] | None = None
    device: torch.device | None = None

    @property
    def n_columns(self) -> int:
        """C."""
        return len(self.frame.columns) - len(self.covariates)

    @property
    def n_known(self) -> int:
        """F, the flag of padded rows, the covariates and the facts included."""
        return self.calendar.shape[1] + self.pad + len(self.covariate_sizes)

    @property
    def covariate_sizes(self) -> tuple[int, ...]:
        """What the covariates and the facts are, see `WindowShape.covariates`."""
        facts = () if self.frame.facts is None else map(self.frame.facts.size_of, self.frame.facts.names)
        return (*map(self.frame.size_of, self.covariates), *facts)

    @property
    def target_names(self) -> list[str]:
        """The names of the T target columns."""
        return [self.frame.columns[i] for i in self.targets]

    @property
    def target_scale(self) -> tuple[FloatArray, FloatArray]:
        """Mean and std (S, T) of the targets, original units."""
        columns = list(self.targets)
        return self.scaler.mean[:, columns], self.scaler.std[:, columns]

    def naive_rows(self, split: str) -> tuple[IntArray, IntArray]:
        """The rows (S,) from and to which the errors on a split are scaled by: those before its first forecast."""
        return self.frame.offsets[:-1], self.origins(split).first

    @property
    def context(self) -> int:
        """The rows of its series that must lie before a forecast."""
        return 1 if self.pad else self.seq_len

    @cached_property
    def _scale(self) -> tuple[Tensor, Tensor]:
        return torch.from_numpy(self.scaler.mean), torch.from_numpy(self.scaler.std)

    @cached_property
    def _facts(self) -> Tensor | None:
        return scaled_facts(self.frame.facts, self.fact_scale)

    def origins(self, split: str, *, context: int | None = None) -> Origins:
        """Where the forecasts of a split begin. context: rows that must lie before them, None: as this panel's.

        Without padding no past reaches before the train rows, which a fold that slides begins with.
        """
        begin = self.frame.offsets[:-1] if self.pad else self.splits["train"].first
        return Origins.of(self.splits[split], begin, context=context or self.context, pred_len=self.pred_len)

    def windows(self, split: str, *, look_back: int | None = None, masked: bool = False) -> PanelWindows:
        """All windows whose targets lie in the rows of a split. look_back: rows of the past where more than seq_len.

        masked: whether their batches also say which cells of the past were measured, see `Batch.learnt`.
        """
        return self.windows_of(self.origins(split), look_back=look_back, masked=masked)

    def windows_of(self, origins: Origins, *, look_back: int | None = None, masked: bool = False) -> PanelWindows:
        """The windows whose forecasts begin there. UserError as `check_look_back` raises it."""
        check_look_back(look_back, self.frame.name)
        mean, std = self._scale
        return PanelWindows(
            self.frame,
            origins,
            mean=mean,
            std=std,
            calendar=self.calendar,
            targets=self.targets,
            n_columns=self.n_columns,
            seq_len=self.seq_len,
            pred_len=self.pred_len,
            look_back=look_back,
            padded=self.pad,
            hidden=len(self.hidden),
            facts=self._facts,
            masked=masked,
            device=self.device,
        )

    def on(self, device: torch.device) -> "PanelData":
        """The same data with batches on a device; the panel stays in the host's memory."""
        return replace(self, device=device)

    def shown(self, split: str, windows: Sequence[int]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.datetime64]]:
        """Target values (W, L + P, T), original units, and timestamps (W, L + P) of windows of a split."""
        served = self.windows(split)
        return series_windows(self, served.series_of(windows).numpy(), served.origins_of(windows).numpy())

    def original(
        self, scaled: npt.NDArray[np.float64], series: npt.NDArray[np.int64] | None
    ) -> npt.NDArray[np.float64]:
        """Target values (W, P, T) of windows of these series (W,) in original units."""
        assert series is not None
        return self.scaler.original(scaled, series, self.targets)

    def origin_times(self, split: str, windows: Sequence[int]) -> pd.DatetimeIndex:
        """The last known timestamps of windows of a split, sorted."""
        served = self.windows(split)
        numbers = torch.as_tensor(list(windows), dtype=torch.int64)
        series = served.series_of(numbers).numpy()
        steps = served.origins_of(numbers).numpy() - self.frame.offsets[series] + self.frame.steps[series] - 1
        times: pd.DatetimeIndex = self.frame.calendar()[np.sort(steps)]
        return times

    def left_out(self) -> dict[str, list[str]]:
        """The ids of series without a window, by the reason; those that the reader left out among them."""
        counts = sum(self.origins(split).counts for split in self.splits)
        short = self.frame.ids[np.asarray(counts == 0)]
        found = {reason: list(names) for reason, names in self.frame.left_out.items()}
        if len(short):
            found[f"fewer rows than a window needs, {self.context + self.pred_len}"] = [str(name) for name in short]
        return found


def series_windows(
    data: PanelData, series: Sequence[int] | npt.NDArray[np.int64], origins: Sequence[int] | npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.datetime64]]:
    """Target values (W, L + P, T), original units, and timestamps (W, L + P) of windows, to be looked at.

    series, origins (W,): as `PanelWindows` has them. NaN before a series begins, and where no file held a value.
    """
    frame, columns = data.frame, list(data.targets)
    values = np.full((len(series), data.seq_len + data.pred_len, len(columns)), np.nan)
    stamps = []
    for one, s, origin in zip(values, series, origins, strict=True):
        begin = int(frame.offsets[s])
        first = max(begin, int(origin) - data.seq_len)
        rows = slice(first, int(origin) + data.pred_len)
        found = frame.values[rows, columns].astype(np.float64)
        if frame.measured is not None:
            found[~frame.measured[rows, columns]] = np.nan
        missing = len(one) - len(found)
        one[missing:] = found
        step = int(first - begin + frame.steps[s])
        known = pd.date_range(frame.first, periods=step + len(found), freq=frame.freq)[step:]
        before = pd.date_range(end=known[0], periods=missing + 1, freq=frame.freq)[:missing]
        stamps.append(before.append(known).to_numpy().astype("datetime64[ns]"))
    return values, np.array(stamps)


def prepare_panel(
    frame: PanelFrame,
    *,
    split: Split,
    targets: tuple[int, ...],
    seq_len: int,
    pred_len: int,
    encoding: CalendarEncoding,
    pad: bool,
    scaling: How,
    season: int | None = None,
    covariates: tuple[str, ...] = (),
    hidden: tuple[str, ...] = (),
    fact_scale: npt.NDArray[np.float64] | None = None,
) -> PanelData:
    """Cuts, scales and adds the calendar. UserError where a split holds no window of any series.

    season, covariates, hidden, fact_scale: as `PanelData` has them; scaling="season" needs a season.
    """
    assert not covariates or frame.columns[-len(covariates) :] == covariates
    rows = panel_cuts(split, frame, pred_len=pred_len)
    context = 1 if pad else seq_len
    lengths: dict[str, object] = {"seq_len": seq_len, "pred_len": pred_len}
    options: dict[str, Any] = {"targets": targets, "encoding": encoding, "pad": pad, "season": season, **lengths}
    options |= {"covariates": covariates, "hidden": hidden, "fact_scale": fact_scale}
    data = made_panel(frame, rows, scaling=scaling, **options)
    needs = "1 row before them, since data.short=pad," if pad else f"seq_len {seq_len}"
    check_enough(
        {name: data.origins(name) for name in rows},
        frame,
        needed=context + pred_len,
        lengths=f"{needs} + pred_len {pred_len}",
        pad=pad,
    )
    return data


def made_panel(
    frame: PanelFrame, splits: dict[str, PanelRows], *, scaling: How, season: int | None, seq_len: int, **options: Any
) -> PanelData:
    """A panel that was cut: filled within its splits, and scaled. options: the rest of `PanelData`."""
    frame = filled_within(frame, splits.values())
    together = len(options["covariates"])
    train = splits["train"]
    scaler = Scales.fit(frame, scaling, train.first, train.stop, context=seq_len, period=season, together=together)
    calendar = panel_calendar(frame, options["encoding"], more=options["pred_len"])
    known: dict[str, Any] = {"season": season, "seq_len": seq_len, **options}
    return PanelData(frame=frame, splits=splits, scaler=scaler, calendar=calendar, **known)


def panel_calendar(frame: PanelFrame, encoding: CalendarEncoding, *, more: int) -> Tensor:
    """The known features (steps, F) of each step of a panel, and of `more` after its last."""
    features = time_features(frame.calendar(more), frame.freq, encoding=encoding)
    return torch.from_numpy(np.ascontiguousarray(features, dtype=np.float32))
