"""What users of other programs type, and what says the same here."""

from collections.abc import Collection

# Word -> our key or group.
KEYS = {
    **dict.fromkeys(("horizon", "h", "forecast_horizon", "prediction_length", "output_chunk_length"), "pred_len"),
    **dict.fromkeys(("lookback", "look_back", "context_length", "input_size", "input_chunk_length"), "seq_len"),
    **dict.fromkeys(("random_seed", "random_state"), "seed"),
    **dict.fromkeys(("quantile_levels", "quantiles", "levels"), "level"),
    **dict.fromkeys(("attn", "attention_type"), "attention"),
    **dict.fromkeys(("optimizer", "optim_type"), "optim"),
    **dict.fromkeys(("lradj", "scheduler", "lr_scheduler"), "schedule"),
    **dict.fromkeys(("criterion", "loss_fn"), "loss"),
    **dict.fromkeys(("e_layers", "enc_layers", "num_encoder_layers"), "model.encoder_layers"),
    **dict.fromkeys(("d_layers", "dec_layers", "num_decoder_layers"), "model.decoder_layers"),
    **dict.fromkeys(("nhead", "num_heads", "n_head"), "model.n_heads"),
    **dict.fromkeys(("dim_feedforward", "conv_hidden_size"), "model.d_ff"),
    **dict.fromkeys(("hidden_size", "d_hidden"), "model.d_model"),
    "embed": "model.embedding",
    **dict.fromkeys(("revin", "use_norm"), "model.instance_norm"),
    "factor": "attention.mechanism.factor",
    **dict.fromkeys(("learning_rate", "init_lr"), "optim.lr"),
    **dict.fromkeys(("epochs", "train_epochs", "n_epochs", "num_epochs"), "trainer.max_epochs"),
    **dict.fromkeys(("amp", "use_amp"), "trainer.precision"),
    "val_check_steps": "trainer.val_check_interval",
    **dict.fromkeys(("grad_clip", "clip_grad", "gradient_clip"), "trainer.gradient_clip_val"),
    **dict.fromkeys(("early_stop_patience_steps", "patience"), "callbacks.early_stopping.patience"),
    **dict.fromkeys(("root_path", "data_dir"), "data.root"),
    **dict.fromkeys(("data_path", "csv", "file"), "data.path"),
    **dict.fromkeys(("batch", "bs", "train_batch_size"), "data.batch_size"),
    **dict.fromkeys(("season_length", "seasonality"), "data.season"),
    **dict.fromkeys(("time_col", "timestamp_column", "ds"), "data.time_column"),
    **dict.fromkeys(("id_col", "item_id", "unique_id"), "data.id_column"),
    **dict.fromkeys(("futr_exog_list", "known_covariates_names", "future_covariates"), "data.known"),
}
# Word -> what to do instead, in a training.
ADVICE = {
    **dict.fromkeys(("itr", "seeds"), "for three runs say -m seed=1,2,3; for the mean of three networks, networks=3"),
    **dict.fromkeys(("gpus", "gpu", "use_gpu", "use_multi_gpu"), "say trainer=gpu, or trainer=ddp for several"),
    **dict.fromkeys(("num_workers", "n_workers"), "windows are gathered faster than processes could hand them over"),
    **dict.fromkeys(("flash", "sdpa", "flash_attention"), "attention=full takes the fastest kernel that torch has"),
    **dict.fromkeys(("time_limit", "minutes"), "a search within so many minutes is forecast auto FILE --minutes 10"),
    **dict.fromkeys(("checkpoints", "output_dir", "log_dir"), "the folder of a run is hydra.run.dir=FOLDER"),
    "min_delta": "say +callbacks.early_stopping.min_delta=0.001, with the plus",
    "is_training": "forecast train trains, forecast evaluate evaluates",
}


def answer(word: str, known: Collection[str]) -> str:
    """What follows "is no key of the config" for a word; empty for one of nobody, and where our key is not `known`."""
    if KEYS.get(word) in known:
        return f". Did you mean '{KEYS[word]}'?"
    return f": {ADVICE[word]}" if word in ADVICE and "trainer.devices" in known else ""
