"""Other implementations: imported from where the user has them, never copied.

Each has its ProbSparse mechanism and its model on our batches; the authors' also its own loader and loops.
"""

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from benchmarks.setting import Setting, Sizes
from forecast.data.windows import Batch
from forecast.errors import UserError, closest

Forecaster = Callable[[], tuple[Tensor, Tensor]]
# What their experiment passes to their model beside its sizes.
THEIR_CHOICES = {"attn": "prob", "embed": "timeF", "freq": "h", "activation": "gelu"}
THEIR_SWITCHES = {"output_attention": False, "distil": True, "mix": True}


class Peer:
    """One implementation. note: what a reader of the figures must know."""

    name: ClassVar[str]
    note: ClassVar[str] = ""
    attn: Any  # the module that has its ProbAttention

    def attention(self, *, causal: bool, factor: int) -> nn.Module:
        """Its ProbSparse mechanism without dropout: (q, k, v, None) -> (context, None), each (B, L, H, E)."""
        mechanism: nn.Module = self.attn.ProbAttention(causal, factor, attention_dropout=0.0, output_attention=False)
        return mechanism

    def model(self, sizes: Sizes, device: str) -> nn.Module:
        """Its model with fresh weights."""
        raise NotImplementedError

    def forecaster(self, model: nn.Module, sizes: Sizes, batch: Batch) -> Forecaster:
        """From a batch of ours the forecast and truth that its loss compares, computed anew at each call.

        What its loader would have prepared is prepared here once; what its loop does in each step is part of the call.
        """
        raise NotImplementedError


class Informer2020(Peer):
    """The authors' checkout, by its folder.

    Raises UserError for a folder that is not one, that does not load, or whose packages another one hides.
    """

    name = "informer2020"

    def __init__(self, folder: str) -> None:
        modules = ("models.attn", "models.model", "data.data_loader")
        if folder not in sys.path:
            sys.path.insert(0, folder)
        loaded = []
        for name in modules:
            try:
                module = importlib.import_module(name)
            except ImportError as error:
                raise UserError(
                    f"--peer informer2020={folder}: {name} does not load: {error}. Install what its code needs, or "
                    "name another checkout."
                ) from error
            if Path(folder).resolve() not in Path(str(module.__file__)).resolve().parents:
                where = f"--peer informer2020={folder}: {name} is loaded from {module.__file__}"
                raise UserError(f"{where}. Take that out of PYTHONPATH.")
            loaded.append(module)
        self.attn, self.models, self.loader = loaded

    def model(self, sizes: Sizes, device: str) -> nn.Module:
        """See `Peer`."""
        columns, lengths = (sizes.n_columns,) * 3, (sizes.seq_len, sizes.label_len, sizes.pred_len)
        model: nn.Module = self.models.Informer(
            *columns,
            *lengths,
            factor=sizes.factor,
            d_model=sizes.d_model,
            n_heads=sizes.n_heads,
            e_layers=sizes.encoder_layers,
            d_layers=sizes.decoder_layers,
            d_ff=sizes.d_ff,
            dropout=sizes.dropout,
            **THEIR_CHOICES,
            **THEIR_SWITCHES,
            device=torch.device(device),
        )
        return model.to(device)

    def forecaster(self, model: nn.Module, sizes: Sizes, batch: Batch) -> Forecaster:
        """See `Peer`: its loop makes the decoder's input, its loader the calendar of both."""
        y = torch.cat([batch.past[:, sizes.seq_len - sizes.label_len :], batch.future], dim=1)
        marks = torch.cat([batch.past_known[:, sizes.seq_len - sizes.label_len :], batch.future_known], dim=1)
        items = (batch.past.contiguous(), y, batch.past_known.contiguous(), marks)
        return lambda: self.processed(model, sizes, items)

    def processed(self, model: nn.Module, sizes: Sizes, items: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """Forecast and truth (B, P, C) of a batch of its loader: x (B, L, C), y (B, S + P, C) and their calendars."""
        x, y, x_mark, y_mark = items
        zeros = torch.zeros_like(y[:, -sizes.pred_len :])
        decoder_input = torch.cat([y[:, : sizes.label_len], zeros], dim=1)
        return model(x, x_mark, decoder_input, y_mark), y[:, -sizes.pred_len :]

    def dataset(self, csv: Path, split: str, sizes: Sizes) -> Any:
        """Its windows of a split of an hourly ETT file."""
        return self.loader.Dataset_ETT_hour(
            str(csv.parent),
            flag=split,
            size=[sizes.seq_len, sizes.label_len, sizes.pred_len],
            features="M",
            data_path=csv.name,
            timeenc=1,
            freq="h",
        )

    def batches(
        self,
        dataset: Any,
        sizes: Sizes,
        device: str,
        *,
        train: bool = True,
        fraction: float = 1.0,
        workers: int = 0,
    ) -> Iterator[list[Tensor]]:
        """x, y and both calendars, by the loader of their experiment and its loop's conversion from float64.

        Shuffled and without the last, smaller batch in training, in order otherwise.
        """
        loader = DataLoader(dataset, batch_size=sizes.batch, shuffle=train, num_workers=workers, drop_last=train)
        # as many as Lightning's limit_train_batches counts, but one at least
        for items in islice(loader, max(1, int(len(loader) * fraction))):
            yield [item.float().to(device) for item in items]


class NeuralForecast(Peer):
    """Nixtla's package, when it is installed. Raises UserError when it is not."""

    name = "neuralforecast"
    note = "neuralforecast's model reads and forecasts one column, its cross-attention is ProbSparse, S is below L"

    def __init__(self) -> None:
        if importlib.util.find_spec("neuralforecast") is None:
            raise UserError("--peer neuralforecast: it is not installed here. Run: pip install neuralforecast")
        self.attn = importlib.import_module("neuralforecast.models.informer")

    def model(self, sizes: Sizes, device: str) -> nn.Module:
        """See `Peer`: it takes no start token as long as its window."""
        label_len = min(sizes.label_len, sizes.seq_len - 1)
        model: nn.Module = self.attn.Informer(
            h=sizes.pred_len,
            input_size=sizes.seq_len,
            futr_exog_list=[f"known_{i}" for i in range(sizes.n_known)],
            decoder_input_size_multiplier=(label_len - 0.5) / sizes.seq_len,  # it rounds up
            hidden_size=sizes.d_model,
            dropout=sizes.dropout,
            factor=sizes.factor,
            n_head=sizes.n_heads,
            conv_hidden_size=sizes.d_ff,
            encoder_layers=sizes.encoder_layers,
            decoder_layers=sizes.decoder_layers,
            activation="gelu",
        )
        return model.to(device)

    def forecaster(self, model: nn.Module, sizes: Sizes, batch: Batch) -> Forecaster:
        """See `Peer`: the first column alone."""
        windows = {
            "insample_y": batch.past[..., :1].contiguous(),
            "futr_exog": torch.cat([batch.past_known, batch.future_known], dim=1),
        }
        truth = batch.future[..., :1].contiguous()
        return lambda: (model(windows), truth)


PEERS = {"informer2020": Informer2020, "neuralforecast": NeuralForecast}


def load_peer(option: str) -> Peer:
    """The peer that --peer names: NAME or NAME=FOLDER. Raises UserError when it cannot be had."""
    name, _, folder = option.partition("=")
    if name not in PEERS:
        raise UserError(f"--peer {option}: the peers are informer2020=FOLDER, neuralforecast.{closest(name, PEERS)}")
    if name == "informer2020":
        if not folder:
            raise UserError("--peer informer2020: say where its checkout is: --peer informer2020=FOLDER")
        return Informer2020(folder)
    if folder:
        raise UserError(f"--peer {option}: it is an installed package and takes no folder: --peer neuralforecast")
    return NeuralForecast()


def authors(setting: Setting) -> Informer2020 | None:
    """The authors' code, when it is among the peers: the only one with loops of its own. No other is imported."""
    folders = [peer.partition("=")[2] for peer in setting.peers if peer.startswith("informer2020=")]
    return Informer2020(folders[0]) if folders else None
