"""Older formats: the names that their files use, and those of this program."""

import re
from typing import Any

RECORD = "forecast"  # the key of our part
PANEL = "panel"  # its entry on the series of a panel
REFIT = "refit"  # its entry on the rows that a model was trained on once more
FORMAT = 2  # raised when an older program could misread a file

# Format 1 was written before an Informer's decoder was a module with embedding, layers, norm and head.
INFORMERS = tuple(
    f"forecast.models.{name}"
    for name in ("informer.Informer", "informer_stack.InformerStack", "transformer.Transformer")
)
FORMAT_1_NAMES = (
    (r"^model\.decoder\.(?=\d)", "model.decoder.layers."),
    (r"^model\.decoder_(?=embedding\.|norm\.)", "model.decoder."),
    (r"^model\.head\.", "model.decoder.head."),
)


def rename_weights(content: dict[str, Any]) -> None:
    """Gives the weights of a checkpoint of an older format the names that they have now; their order stays.

    The optimizer's state goes by the order of the weights and needs no change.
    """
    record = content[RECORD]
    if record["format"] > 1 or record["config"]["model"].get("_target_") not in INFORMERS:
        return
    weights = content["state_dict"]
    for name in list(weights):
        current = name
        for old, new in FORMAT_1_NAMES:
            current = re.sub(old, new, current)
        weights[current] = weights.pop(name)  # also where the name stays: popped and put back, the order stays
