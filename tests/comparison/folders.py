"""Run folders as train.py leaves them, with errors that a test chooses."""

import json

import numpy as np

N_WINDOWS, PRED_LEN, COLUMNS = 211, 3, ("a", "b")


def make_run(
    folder, *, errors, seed=1, number=0, seq_len=7, data="ETTh1", first=11, seconds=10.0, memory=100.0, **more
):
    """errors (N,): the squared error of each window. more: overrides, group or key with __ for a dot."""
    overrides = {key.replace("__", "."): value for key, value in more.items()} | {"seed": seed}
    (folder / ".hydra").mkdir(parents=True)
    (folder / ".hydra" / "overrides.yaml").write_text("".join(f"- {k}={v}\n" for k, v in overrides.items()))
    mse, metrics = float(np.mean(errors)), metrics_of(errors, data=data, seed=seed, seq_len=seq_len)
    metrics["cost"] |= {"train_seconds": seconds, "peak_memory_mb": memory}
    info = {"status": "finished", "versions": {"torch": "2.13.0"}, "data": {"name": data, "checksum": "c0ffee"}}
    info["job"] = number
    (folder / "metrics.json").write_text(json.dumps(metrics))
    (folder / "run.json").write_text(json.dumps(info))
    (folder / "metrics_by_step.csv").write_text(
        "step,mse_scaled,ridge_mse_scaled\n" + "".join(f"{s},{s / 10},{s / 20}\n" for s in (1, 2, 3))
    )
    starts = np.arange(first - seq_len, first - seq_len + len(errors))
    squared = np.stack([errors - 0.1, errors + 0.1], axis=1)
    np.savez(folder / "errors_by_window.npz", start=starts, squared_scaled=squared, columns=np.array(COLUMNS))
    times = np.datetime64("2020-01-01T00", "ns") + np.arange(seq_len + PRED_LEN) * np.timedelta64(1, "h")
    shift = np.timedelta64(first - seq_len, "h")  # windows that begin their forecast at the same row show the same time
    np.savez(
        folder / "forecasts.npz",
        past=np.zeros((1, seq_len, 2)),
        truth=np.ones((1, PRED_LEN, 2)),
        forecast=np.full((1, PRED_LEN, 2), mse),
        timestamps=(times + shift)[None],
        columns=np.array(COLUMNS),
    )
    return folder


def metrics_of(errors, *, data, seed, seq_len):
    """metrics.json of a finished run with these window errors, without the two costs that a test chooses."""
    mse, mae = float(np.mean(errors)), float(np.mean(np.sqrt(errors)))
    both = {"scaled": {"mse": mse, "mae": mae}, "mase": 1.5}
    return {
        "status": "finished",
        "model": "informer",
        "attention": "prob",
        "data": data,
        "features": "M",
        "protocol": "all_windows",
        "seed": seed,
        "seq_len": seq_len,
        "label_len": 2,
        "pred_len": PRED_LEN,
        "parameters": 1234567,
        "best_epoch": 2,
        "same_data": ["data=csv", "data.path=/home/somebody/my.csv"],
        "test": {"windows": len(errors), **both, "skill": 0.25, "flat": []},
        "baselines": {
            "last_value": {"scaled": {"mse": 0.9, "mae": 0.8}},
            "seasonal_naive": {"period": None, "scaled": {"mse": 0.7, "mae": 0.6}, "mase": 1.1},
            "closed_form_nlinear": {"scaled": {"mse": 0.4, "mae": 0.3}},
            "ridge": {"scaled": {"mse": 0.35, "mae": 0.25}},
        },
        "cost": {"train_samples_per_second": 5.0, "device": "cpu", "precision": "32-true"},
    }


def make_runs(folder, rows, seed=1, **more):
    """A run for each attention: name -> its window errors. In folder/NAME and the seed, in their order."""
    for number, (name, errors) in enumerate(rows.items()):
        make_run(folder / f"{name}{seed}", errors=errors, seed=seed, number=number, attention=name, **more)


def wave(level, n=N_WINDOWS, seed=0):
    """Window errors around `level` that hang together, as those of overlapping windows do."""
    noise = np.random.default_rng(seed).normal(size=n + 9)
    return level + 0.05 * np.convolve(noise, np.ones(10) / 10, "valid")


def edit_json(path, change):
    """Calls `change` with the content and writes back what it returns, or what it has changed."""
    content = json.loads(path.read_text())
    path.write_text(json.dumps(change(content) or content))
