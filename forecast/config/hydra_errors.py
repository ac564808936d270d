"""Errors of Hydra and of a full disk as one message: what was typed wrong, or a line above their own words."""

import contextlib
import errno
import re
from collections.abc import Sequence

import yaml
from hydra.errors import HydraException, MissingConfigException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from forecast.config.compose import chosen_groups, compose_config, groups, walk
from forecast.errors import UserError, closest
from forecast.text.terminal import label

FOLDER = "hydra.run.dir=FOLDER, of a sweep hydra.sweep.dir=FOLDER"
# Refusals that are none of Hydra's own exceptions: of GROUP=null, of a search path, of a machine without SLURM.
PLAIN = ("Config group override must be a string or a list", "No config source registered", 'Could not detect "srun"')
# What a file system refuses to whoever writes; a file that is not there is a matter of its own.
UNWRITABLE = {
    *(errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST),
    *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EISDIR, errno.ENAMETOOLONG),
}


def message(error: BaseException, *, config_name: str, overrides: Sequence[str]) -> str | None:
    """The text for a mistake of the user; None for anything else, which is a bug and keeps its traceback."""
    cause: BaseException | None = error
    # what a resolver raises comes wrapped, as does a log that cannot be opened
    while cause and (
        isinstance(cause, HydraException | OmegaConfBaseException)
        or str(cause).startswith("Unable to configure handler")
    ):
        cause = cause.__cause__ or cause.__context__
    if isinstance(cause, UserError | yaml.MarkedYAMLError):
        return str(cause)
    if isinstance(cause, OSError) and cause.errno in UNWRITABLE:
        place = label(str(cause.filename or "The disk"))
        return f"{place}: {cause.strerror}. Make room or choose a folder that you can write to: {FOLDER}"
    if not isinstance(error, HydraException | OmegaConfBaseException) and not str(error).startswith(PLAIN):
        return None
    text = str(error)
    if isinstance(error, MissingConfigException):
        answer = _no_option(str(error.missing_cfg_file))
        text = text.partition("\nConfig search path:")[0]
    else:
        answer = _no_key(text, config_name, overrides)
    return answer or f"forecast {config_name} {label(' '.join(overrides))}:\n{text}"


def _no_option(path: str) -> str:
    """What to say of GROUP/OPTION that there is none of; empty where no option is like it."""
    group, _, option = path.rpartition("/")
    near = closest(option, groups().get(group, []))
    typed = f"experiment={group.removeprefix('experiment/')}/" if group.startswith("experiment/") else f"{group}="
    return f"{typed}{label(option)}: there is no such choice.{near}" if near else ""


def _no_key(text: str, config_name: str, overrides: Sequence[str]) -> str:
    """What to say of a key that the config lacks, or that was not typed; empty where Hydra means something else."""
    if lacking := re.search(r"Missing mandatory value: (\S+)", text):
        value = "RUN/checkpoints/best.ckpt" if lacking[1] == "ckpt_path" else "VALUE"
        return f"{lacking[1]} is missing: say {lacking[1]}={value}"
    if not (quoted := re.match(r"Could not (?:override|delete from config\.) '([^'@]+)'", text)):
        return ""
    key, names = quoted[1], groups()
    if key in names and key not in chosen_groups(config_name):
        return f"forecast {config_name} takes its {key} from the checkpoint; another file is data.path=FILE"
    chosen = [word for word in overrides if word.partition("=")[0].partition("@")[0] in (*names, "hydra/launcher")]
    keys = [*names]
    with contextlib.suppress(HydraException, OmegaConfBaseException):  # which may refuse even these
        config = compose_config(config_name, chosen, hydra=key.startswith("hydra"))
        keys += [path for path, _ in walk(OmegaConf.to_container(config)) if path and "[" not in path]
    if f"model.{key}" in keys and key.endswith("_attention"):
        return f"'{key}' is a slot of the model, whose attention is chosen as a group: say attention@model.{key}=NAME"
    parent, _, last = key.rpartition(".")  # the shared beginning says nothing about a wrong last part
    siblings = [name.rpartition(".")[2] for name in keys if parent and name.rpartition(".")[0] == parent]
    near = closest(last, siblings).replace("mean '", f"mean '{parent}.") if siblings else closest(key, keys)
    answer = f".{near}".rstrip(".")
    if KEYS.get(key) in keys:
        answer = f". Did you mean '{KEYS[key]}'?"
    elif key in ADVICE and "trainer.devices" in keys:
        answer = f": {ADVICE[key]}"
    # in a sweep another of its jobs may have the key
    return f"'{key}' is no key of the config{answer}" if answer and key not in keys else ""


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
