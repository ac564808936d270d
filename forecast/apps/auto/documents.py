"""The documents of an automatic run, of which types they are when a process reads what one before it has written."""

from typing import Annotated, Literal

from annotated_types import Ge, Interval
from typing_extensions import NotRequired, TypedDict

from forecast.documents import Count, NotNegative

# All that fitting a training into its time can say (`Pace.settings`): any other key would be a stranger's.
PaceKey = Literal[
    "trainer.max_epochs",
    "callbacks.early_stopping.patience",
    "trainer.limit_train_batches",
    "data.windows_per_epoch",
    "seeds",
]
Settings = dict[PaceKey, Annotated[int, Interval(ge=1, le=10**9)]]


class AutoSettings(TypedDict):
    """presets.yaml: the models of each preset, and the overrides of each model and of all networks.

    known: the networks where columns are known in advance; intermittent: what is added where most values are 0.
    """

    presets: dict[str, list[str]]
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
    """Of a member on the windows of a split."""

    scaled: ScaledErrors
    mase: NotRequired[NotNegative | None]


class MemberFigures(TypedDict):
    """member.json."""

    seconds: NotNegative
    windows: Count
    val: Judged
    test: Judged
    val_seconds: NotNegative
    test_seconds: NotNegative


class Weighed(TypedDict):
    """What the checkpoint of the ensemble says of itself."""

    weights: list[Annotated[float, Ge(0)]]
    error: str
    mean: NotNegative
    best_member: NotNegative
    alone: bool | None


class Outcomes(TypedDict, total=False):
    """outcomes.json: what ended without figures, and what steps gave."""

    windows: Count
    left_out: dict[str, str]
    weighed: Weighed
    runs: list[str]
    backtest: str
    explained: str
