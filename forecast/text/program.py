"""How this program was started: what it advises to type begins in the same way."""

import sys
from pathlib import Path

_CONFIGURED = ("train", "evaluate", "backtest", "tune", "predict")


def command(name: str) -> str:
    """`forecast NAME`; where a file of a checkout was started, `python train.py` or `python scripts/NAME.py` there."""
    file = Path(sys.argv[0]) if sys.argv else Path()
    in_scripts = file.parent.name == "scripts"
    if file.suffix != ".py" or not (in_scripts or file.stem in _CONFIGURED):
        return f"forecast {name}"
    checkout = file.parent.parent if in_scripts else file.parent
    script = Path(f"{name}.py") if name in _CONFIGURED else Path("scripts", f"{name.replace('-', '_')}.py")
    return f"python {checkout / script}"
