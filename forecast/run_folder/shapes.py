"""What run.json and metrics.json hold: of which type each entry is that this program reads again.

Nothing is required here: programs before wrote less, and `run_folder.KEYS` says what a run must have.
"""

from typing import Any

from typing_extensions import TypedDict

from forecast.documents import Count, NotNegative, Positive

Figure = float | None  # None: not finite, or of no value
Text = str | None


class Described(TypedDict, total=False):
    """The data of a run."""

    name: str
    path: Text
    checksum: Text
    columns: list[str]
    targets: list[str]
    known: list[str]
    freq: str
    splits: dict[str, list[Count]]
    trained_until: str
    gaps: dict[str, Any] | None


class RunInfo(TypedDict, total=False):
    """run.json. versions: of packages, and `threads`. job: its number in its sweep."""

    status: str
    error: Text
    versions: dict[str, str | int | None]
    commit: Text
    code: Text
    overrides: list[str]
    job: Count | None
    data: Described | None


class Errors(TypedDict, total=False):
    """Of a forecaster on windows, or of one of its columns: the errors in scaled and in original units."""

    windows: Count
    scaled: dict[str, Figure]
    original: dict[str, Figure]
    mase: Figure
    rmsse: Figure
    smape: Figure
    wape: Figure
    columns: dict[str, "Errors"]
    period: Positive | None
    look_back: Positive | None


class Level(TypedDict):
    """Of the intervals of a level."""

    coverage: Figure
    width: Figure
    pinball: Figure
    msis: Figure
    narrow_from: Positive | None


class IntervalErrors(TypedDict):
    """Of all intervals. levels: by their per cent, as a text."""

    calibration: str
    windows: Count
    blocks: Count
    crossed: bool
    levels: dict[str, Level]
    reliability: dict[str, Figure]


class SeriesErrors(TypedDict):
    """The worst and the best series of a panel."""

    count: Count
    evaluated: Count
    without_mase: Count
    worst: list[dict[str, str | Figure]]
    best: list[dict[str, str | Figure]]


class Worth(TypedDict):
    """What a column beside the targets is worth."""

    role: str
    change: Figure
    importance: Figure
    error: Figure
    use: str


class Block(Errors, total=False):
    """The model on the windows of a split."""

    skill: Figure
    flat: list[str]
    coverage: dict[str, Figure]
    level_shift: Figure
    intervals: IntervalErrors | None
    series: SeriesErrors
    covariates: dict[str, Worth]


class Offset(Errors, total=False):
    """As the block of a split, that many steps later."""

    baselines: dict[str, Errors]


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


class Metrics(TypedDict, total=False):
    """metrics.json. The blocks of splits are under their names."""

    status: str
    model: str
    variant: Text
    attention: Text
    attention_slots: dict[str, str]
    data: str
    features: str
    target: Text | list[str]
    protocol: str
    seed: Count
    seq_len: Positive
    label_len: Count | None
    pred_len: Positive
    parameters: Count | None
    best_epoch: Count | None
    trial: bool
    evaluated_file: Text
    scaling: Text
    training: Training | None
    same_data: list[str] | None
    train: Block
    val: Block
    test: Block
    tail: Block
    new: Block
    baselines: dict[str, Errors]
    offsets: dict[str, Offset | None]
    mase_scale: dict[str, Any] | None
    cost: Cost
    files: dict[str, str]
    refit: RefitBlock | None
    rests_on: dict[str, Any]
    leaderboard: dict[str, Any]
