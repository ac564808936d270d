"""Result lines as forecast reproduce writes them, with figures that a test chooses."""


def line(table, row, contender, *, mse, seed=1, seq_len=48, pred_len=24, data="ETTh1", features="M", **more):
    blocks = {"scaled": {"mse": mse, "mae": mse + 0.1}}
    extra = list(more.pop("extra", ()))
    return {
        "identity": f"{table}-{row}-{contender}-{seed}-{extra}-{more}",
        "table": table,
        "row": row,
        "contender": contender,
        "overrides": [f"experiment={table}/{row}", f"seed={seed}", *extra],
        "versions": {"torch": "2.13.0"},
        "data": data,
        "features": features,
        "protocol": "all_windows",
        "seed": seed,
        "seq_len": seq_len,
        "pred_len": pred_len,
        "test": {"windows": 2857, **blocks},
        "baselines": {
            name: {"scaled": {"mse": error, "mae": error}}
            for name, error in {"last_value": 1.222, "seasonal_naive": 0.424, "closed_form_nlinear": 0.318}.items()
        },
        "cost": {"precision": "32-true", "device": "cpu", "train_seconds": 60.0},
        **more,
    }
