"""What run.json and metrics.json hold: of which type each entry is that this program reads again.

Nothing is required here: programs before wrote less, and `run_folder.KEYS` says what a run must have.
"""

from collections.abc import Mapping
from typing import Annotated, Literal, cast

from annotated_types import Interval
from typing_extensions import NotRequired, Required, TypedDict

from forecast.documents import Count, NotNegative, Positive

Figure = float | None  # None: not finite, or of no value
Text = str | None
Scalar = bool | int | float | str | None


class Scale(TypedDict):
    """Mean and deviation of each column."""

    columns: list[str]
    mean: list[float]
    std: list[float]


class Gaps(TypedDict, total=False):
    """What was done to what a file lacked."""

    policy: str
    rows_added: Count
    cells_filled: Count
    longest_run: Count
    windows_left_out: dict[str, Count]


class LeftOut(TypedDict):
    """The series that were left out for one reason."""

    count: Count
    first: list[str]


class SeriesRead(TypedDict, total=False):
    """The series of a panel."""

    count: Count
    rows: Count
    shortest: Count
    longest: Count
    cells_made_up: Count
    left_out: dict[str, LeftOut]


class DataRecord(TypedDict, total=False):
    """The data of a run: where they lay, what a model must know of them, how their rows were split.

    splits: first row and end of each, of one series; windows: how many each has. covariates: of each
    the words of its categories, None for a number; hidden: those that are observed; facts: of the series, their scale.
    floor: below what no forecast of these targets is.
    """

    name: str
    path: Text
    checksum: str
    columns: list[str]
    targets: list[str]
    known: list[str]
    freq: str
    time_format: Text
    season: Positive | None
    scaling: str
    splits: dict[str, list[Count]]
    trained_until: str
    covariates: dict[str, list[str] | None]
    hidden: list[str]
    facts: Scale
    floor: dict[str, float]
    gaps: Gaps | None
    windows: dict[str, Count]
    series: SeriesRead


class Origin(TypedDict):
    """What a page tells of how a checkpoint came about."""

    config: dict[str, object]
    choices: dict[str, Text]
    data: DataRecord
    scale: Scale
    versions: dict[str, str]


class RunInfo(TypedDict, total=False):
    """run.json. versions: of packages, and `threads`. job: its number in its sweep."""

    status: str
    error: Text
    versions: dict[str, str | int | None]
    commit: Text
    code: Text
    overrides: list[str]
    job: Count | None
    tags: list[str]
    data: DataRecord | None


class Difference(TypedDict):
    """Of the model's MSE and a baseline's: the ends of its 95 % interval, None where too few blocks lie apart."""

    low: Figure
    high: Figure
    blocks: Count


class MseDifference(Difference):
    """With the difference itself."""

    mse: float


class Errors(TypedDict, total=False):
    """Of a forecaster on windows, or of one of its columns: the errors in scaled and in original units."""

    windows: Count
    scaled: dict[str, Figure]
    original: dict[str, Figure]
    mase: Figure
    rmsse: Figure
    smape: Figure
    wape: Figure
    columns: dict[str, "Block"]
    period: Positive | None
    look_back: Positive | None
    difference: Difference


class Level(TypedDict):
    """Of the intervals of a level."""

    coverage: Figure
    width: Figure
    pinball: Figure
    msis: Figure
    narrow_from: Positive | None


class IntervalErrorsBlock(TypedDict):
    """Of all intervals. levels: by their per cent, as a text."""

    calibration: str
    windows: Count
    blocks: Count
    crossed: bool
    together: NotRequired[bool]
    sql: Figure
    wql: Figure
    levels: dict[str, Level]
    reliability: dict[str, Figure]


class Named(TypedDict, total=False):
    """A series of a panel."""

    id: str
    mase: Figure
    rmsse: Figure
    smape: Figure
    wape: Figure


class SeriesErrors(TypedDict):
    """How many series there are, and the worst and the best of several."""

    count: Count
    evaluated: Count
    without_mase: Count
    worst: list[Named]
    best: list["Named"]


class Worth(TypedDict, total=False):
    """How much the MAE grows when windows exchange a column, or a block of the past, with the standard error."""

    name: str
    role: str
    first: Count
    last: Count
    change: Figure
    importance: float
    error: float
    use: str


class Block(Errors, total=False):
    """The model on the windows of a split."""

    skill: Figure
    flat: list[str]
    coverage: dict[str, Figure]
    level_shift: Figure
    intervals: IntervalErrorsBlock | None
    series: SeriesErrors
    covariates: dict[str, Worth]


class Offset(Block, total=False):
    """As the block of a split, that many steps later."""

    baselines: dict[str, Block]


class Training(TypedDict, total=False):
    """What a verdict needs to name a cure."""

    windows: Count
    batch_size: Positive | None
    max_epochs: int | None
    lr: Figure
    schedule: Text
    instance_norm: bool | None
    d_model: Count | None
    n_heads: Count | None
    d_ff: Count | None


class Cost(TypedDict, total=False):
    """Of a training."""

    train_seconds: NotNegative | None
    evaluate_seconds: NotNegative
    train_samples_per_second: NotNegative | None
    train_limit_samples_per_second: NotNegative | None
    peak_memory_mb: NotNegative | None
    device: str
    precision: str


class RefitBlock(TypedDict, total=False):
    """Of a second training on more rows."""

    rows: list[str]
    trained_until: str
    steps: Count
    train_seconds: NotNegative
    test: Block


class MaseScale(TypedDict, total=False):
    """By what MASE is scaled."""

    period: Positive | None
    rows: str
    columns_without: list[str]


class BoardRow(TypedDict, total=False):
    """A model on the leaderboard of `forecast auto`."""

    model: str
    validation: Figure
    test: Figure
    mase: Figure
    weight: Figure
    seconds: Figure
    chosen: bool
    reason: str


class Board(TypedDict):
    """error: by which its models are ranked; reason: why one was chosen."""

    rows: list[BoardRow]
    error: str
    reason: str


class EnsembleMember(TypedDict):
    """Of an ensemble."""

    model: str
    run: str
    weights: list[float]


class Imported(TypedDict):
    """The file that weights come from."""

    file: str
    sha256: str


class Metrics(TypedDict, total=False):
    """metrics.json. The blocks of splits are under their names."""

    status: str
    model: str
    variant: Text
    attention: Text
    attention_slots: dict[str, str]
    data: str
    features: str
    target: Text
    protocol: str
    seed: Count
    seq_len: Positive
    label_len: Count | None
    pred_len: Positive
    parameters: Count | None
    best_epoch: Count | None
    trial: bool
    evaluated_file: Text
    evaluated_from: str
    scaling: Text
    validation_judges: bool
    training: Training | None
    same_data: list[str] | None
    train: Block
    val: Block
    test: Block
    tail: Block
    new: Block
    baselines: dict[str, Block]
    offsets: dict[str, Offset | None]
    mase_scale: MaseScale | None
    cost: Cost
    files: dict[str, str]
    refit: RefitBlock | None
    rests_on: dict[str, list[Worth]]
    leaderboard: Board
    members: list[EnsembleMember]
    imported: Imported


def block_of(metrics: Metrics, split: str) -> Block:
    """The block of a split."""
    return cast(Mapping[str, Block], metrics)[split]


def is_many(metrics: Metrics, split: str) -> bool:
    """Whether windows of several series were judged, each of which then counts alike."""
    of_series = block_of(metrics, split).get("series")
    return of_series is not None and of_series["count"] > 1


ErrorName = Literal["mse", "mae", "mase"]


class FoldErrors(TypedDict):
    """Of a forecaster, or of a fold."""

    mse: NotNegative | None
    mae: NotNegative | None
    mase: NotNegative | None


class FoldDifference(MseDifference):
    """In how many of the folds the model had the lower one."""

    better_in: Count
    folds: Count


class Fold(TypedDict):
    """The forecasts from one cutoff; the errors of each forecaster are under its name."""

    fold: Count
    cutoff: str
    values: Count
    coverage: dict[str, NotNegative | None]


class BacktestSummary(TypedDict):
    """Over all folds."""

    overall: dict[str, FoldErrors]
    coverage: dict[str, NotNegative | None]
    differences: dict[str, FoldDifference]


class Backtest(BacktestSummary):
    """backtest.json."""

    status: str
    model: str
    data: str
    features: NotRequired[str]
    target: NotRequired[Text]
    seed: NotRequired[Count]
    seq_len: NotRequired[Positive]
    pred_len: Positive
    folds: Annotated[int, Interval(ge=1, le=10**6)]
    step: Positive
    window: NotRequired[str]
    refit: Literal["never", "every_fold", "warm"]
    by_fold: list[Fold]
    files: dict[str, str]


def errors_in(fold: Fold, forecaster: str) -> FoldErrors:
    """The errors of a forecaster in a fold."""
    return cast(Mapping[str, FoldErrors], fold)[forecaster]


class Trial(TypedDict):
    """A training of a study."""

    trial: Count
    state: str
    error: float | None
    seconds: NotNegative | None
    epochs: Count | None
    config: dict[str, Scalar]
    reason: str | None
    by_epoch: NotRequired[list[float]]


class Best(Trial):
    """With the command that trains it, and where its file is."""

    command: str
    file: str


class RangeEnds(TypedDict, total=False):
    """Of a range of numbers."""

    low: Required[float]
    high: Required[float]
    step: float | None
    log: bool


class StudyDocument(TypedDict):
    """trials.json."""

    status: NotRequired[str]
    folder: NotRequired[str]
    model: str
    data: str
    seed: Count
    seq_len: Count
    pred_len: Count
    best: Best
    trials: list[Trial]
    states: dict[str, Count]
    space: dict[str, list[Scalar] | RangeEnds]
    metric: str
    seconds: NotNegative
    minutes: NotNegative | None
    most_trials: NotRequired[Count | None]
    why: str
    files: NotRequired[dict[str, str]]
