"""The documents that one process of an automatic run writes and a later one reads, with their types."""

from typing import Annotated, Literal

from annotated_types import Ge, Interval
from typing_extensions import NotRequired, TypedDict

from forecast.documents import Count, NotNegative

# The overrides that fit a training into its time (`Pace.settings`): from a file no other key is taken.
PaceKey = Literal[
    "trainer.max_epochs",
    "callbacks.early_stopping.patience",
    "trainer.limit_train_batches",
    "data.windows_per_epoch",
    "networks",
]
Settings = dict[PaceKey, Annotated[int, Interval(ge=1, le=10**9)]]


class AutoSettings(TypedDict):
    """presets.yaml: the models of each preset, and the overrides of each model and of all networks.

    baselines: which every run fits to compare with, so that they are trained whatever the time. past_alone: which take
    no columns beside the targets.
    known: in place of networks where columns are known in advance; intermittent: what is added where most values are 0.
    """

    presets: dict[str, list[str]]
    baselines: list[str]
    past_alone: list[str]
    known: list[str]
    intermittent: list[str]
    fitted: dict[str, dict[str, object]]
    networks: dict[str, dict[str, object]]
    every_network: dict[str, object]


class AutoState(TypedDict):
    """auto.json: what was asked for, and the seconds that it took so far."""

    request: dict[str, object]
    seconds: NotNegative


class ScaledErrors(TypedDict):
    """The errors by which members are compared."""

    mse: NotNegative
    mae: NotNegative


class Judged(TypedDict):
    """The errors of a member on the windows of a split."""

    scaled: ScaledErrors
    mase: NotRequired[NotNegative | None]


class MemberFigures(TypedDict):
    """member.json: seconds of the training, its number of train windows, errors, and the seconds of each evaluation.

    refit_seconds: that a training on all rows is expected to take.
    """

    seconds: NotNegative
    refit_seconds: NotNegative
    windows: Count
    val: Judged
    test: Judged
    val_seconds: NotNegative
    test_seconds: NotNegative


class Weighed(TypedDict):
    """What the checkpoint of the ensemble says of itself. weights: one for each member.

    mean, members: the `error` of the weighted mean and of each member, on the half of the validation windows that did
    not choose it. alone: whether the best of these is used in place of the mean; None: too few windows to say.
    few: which intervals they are too few for, and the words of the command that give them.
    """

    weights: list[Annotated[float, Ge(0)]]
    error: str
    mean: NotNegative
    members: list[NotNegative]
    alone: bool | None
    few: str


class Outcomes(TypedDict, total=False):
    """outcomes.json: what ended without figures, and what steps gave.

    runs: the members that `weighed` is of. backtest, explained: "done", or why there is none.
    """

    windows: Count
    left_out: dict[str, str]
    weighed: Weighed
    runs: list[str]
    backtest: str
    explained: str
