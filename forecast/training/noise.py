"""What Lightning prints that says nothing to our users, left out by name; everything else of it stays."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

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
