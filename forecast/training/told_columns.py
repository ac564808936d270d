"""What a checkpoint holds of the columns that are known in advance, and of the facts of the series."""

from collections.abc import Sequence

from forecast.data.prepare import Prepared


def told_columns(data: Prepared) -> dict[str, object]:
    """Nothing where there are none. covariates: of each None for a number, or its words; hidden, facts."""
    frame, entries = data.frame, dict[str, object]()
    words = {name: _words(frame.categories.get(name)) for name in data.covariates}
    if data.frame.facts is not None:
        facts, scale = data.frame.facts, data.fact_scale
        assert scale is not None
        words |= {name: _words(facts.categories.get(name)) for name in facts.names}
        entries["facts"] = {"columns": list(facts.columns), "mean": scale[0].tolist(), "std": scale[1].tolist()}
    return {
        **({"covariates": words} if words else {}),
        **({"hidden": list(data.hidden)} if data.hidden else {}),
        **entries,
    }


def _words(words: Sequence[str] | None) -> list[str] | None:
    return None if words is None else list(words)
