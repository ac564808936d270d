"""Lightning as our users meet it: without what says nothing to them, and with its refusals as messages."""

import logging
import signal
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from lightning.fabric.utilities.exceptions import MisconfigurationException

from forecast.errors import UserError

# An advertisement, with a link.
ADVERTISEMENT = "Tip: For seamless cloud"
HARMLESS = (
    # Lightning 2.6 with torch 2.13; Lightning's own affair
    r"`isinstance\(treespec, LeafSpec\)` is deprecated",
    # a batch is one indexing operation: workers would only copy it about
    r"The '\w+' does not have many workers",
    # trainer.log_every_n_steps is what the user set, or our default; a short epoch is logged at its end
    r"The number of training batches \(\d+\) is smaller than the logging interval",
    # best.ckpt of the run that is continued stays where it is
    r"Checkpoint directory .* exists and is not empty",
)


@contextmanager
def lightning_without_noise() -> Iterator[None]:
    """Lightning's log goes to ours alone, not to the console a second time, and lacks the advertisement."""
    for name in ("lightning", "lightning.pytorch", "lightning.fabric"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
    source = logging.getLogger("lightning.pytorch.utilities.rank_zero")

    def worth_reading(record: logging.LogRecord) -> bool:
        return ADVERTISEMENT not in record.getMessage()

    source.addFilter(worth_reading)
    with warnings.catch_warnings():
        for message in HARMLESS:
            warnings.filterwarnings("ignore", message=message)
        try:
            yield
        finally:
            source.removeFilter(worth_reading)


@contextmanager
def lightnings_refusals() -> Iterator[None]:
    """Turns what Lightning or torch.optim refuse into a UserError, and their exit after Ctrl-C into KeyboardInterrupt.

    What they refuse is told from a bug of ours by where it was raised.
    """
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    except SystemExit as stop:
        # Lightning answers Ctrl-C with exit status 1, and goes on ignoring it
        if isinstance(stop.__context__, KeyboardInterrupt):
            signal.signal(signal.SIGINT, handler)
            raise KeyboardInterrupt from stop
        raise
    except (ValueError, TypeError, MisconfigurationException) as error:
        raised_in = traceback.extract_tb(error.__traceback__)[-1].filename
        if isinstance(error, UserError) or not any(part in raised_in for part in ("/lightning/", "/torch/optim/")):
            raise
        raise UserError(str(error)) from error
