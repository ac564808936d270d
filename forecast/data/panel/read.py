"""A panel as people have it, as one array: long, wide or a line a series, in one file or several."""

from forecast.data.panel.frame import PanelFrame
from forecast.data.sources import CsvSource


def read_panel(source: CsvSource, *, freq: str | None = None) -> PanelFrame:
    """All series of a source whose `panel_form` is set, in the order of their ids' first appearance.

    freq: that of a training, which the series must have; None infers it, one for all. UserError, naming file, line,
    column, value and fix, for a file that is no such panel.
    """
    raise NotImplementedError
