"""The data sets known by name: where they come from, and that a file is the right one."""

import logging
from pathlib import Path

import pooch

from forecast.errors import UserError, closest, readable
from forecast.text.terminal import label

_log = logging.getLogger(__name__)
FOLDER = "https://raw.githubusercontent.com/zhouhaoyi/ETDataset/main/ETT-small"
CATALOG = {  # the MD5 of FOLDER/NAME.csv
    "ETTh1": "8381763947c85f4be6ac456c508460d6",
    "ETTh2": "51a229a3fc13579dd939364fefe9c7ab",
    "ETTm1": "82d6bd89109c63d075d99c1077b33f38",
    "ETTm2": "7687e47825335860bf58bccb31be0c56",
}


def locate(name: str, root: Path | str) -> Path:
    """The file root/NAME.csv, verified; downloaded (pooch) when it is not there.

    UserError for an unknown name, a file that is not the published one, and a download that fails.
    """
    if name not in CATALOG:
        raise UserError(
            f"The catalog has no data set '{name}', only {', '.join(CATALOG)}.{closest(name, CATALOG)} "
            "For a file of your own use data=csv data.path=my.csv."
        )
    md5, path, url = CATALOG[name], Path(root) / f"{name}.csv", f"{FOLDER}/{name}.csv"
    if path.exists():
        if file_md5(path) != md5:
            raise UserError(
                f"{path} is not the published file: its MD5 is {file_md5(path)}, not {md5}. Remove it to download it "
                "anew (a file with CRLF line ends counts as another), or read it as your own with data=csv "
                "data.path=..."
            )
        return path
    _log.info("Downloading %s to %s", url, path)
    pooch.get_logger().setLevel(logging.WARNING)  # one line, ours, is enough
    try:
        # pooch writes to a temporary name and moves the file when its checksum is right.
        pooch.retrieve(url, f"md5:{md5}", fname=path.name, path=path.parent)
    # Every network error of requests is an OSError, a wrong checksum a ValueError.
    except (OSError, ValueError) as error:
        raise UserError(
            f"{path} is not there and its download failed: {label(str(error), 300)}. Get it from {url} "
            f"(MD5 {md5}) and put it at {path.absolute()}, or point FORECAST_DATA or data.root to the folder that "
            "holds it. data=demo needs no download."
        ) from error
    return path


def file_md5(path: Path | str) -> str:
    """The MD5 of a file's bytes, in hexadecimal. UserError when it cannot be read."""
    with readable(path):
        return str(pooch.file_hash(path, alg="md5"))
