"""What --help prints: the text in conf/NAME.yaml with the choices of every group, from the names of files alone."""

import textwrap
from string import Template

from omegaconf import OmegaConf

from forecast.config.hydra_errors import groups
from forecast.config.values import CONF, natural

WIDTH = 110


def help_text(config_name: str) -> str:
    """The help of an entry point. Hydra's own takes a second: it composes the config and opens each group often."""
    template = OmegaConf.select(OmegaConf.load(CONF / f"{config_name}.yaml"), "hydra.help.template")
    lines = []
    for group, names in sorted(groups().items()):
        # `model: dlinear, gpt`; of a folder of experiments `experiment=etth1_m/: 24, 48`, as one types them
        label = group.replace("experiment/", "experiment=") + "/" if group.startswith("experiment/") else group
        options = ", ".join(sorted((name for name in names if name != "inherit"), key=natural))
        text = f"{label}: {options}"
        lines.append(textwrap.fill(text, WIDTH, subsequent_indent="    ", break_on_hyphens=False))
    return Template(str(template)).safe_substitute(APP_CONFIG_GROUPS="\n".join(lines))
