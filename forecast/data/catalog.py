"""The data sets known by name: where they come from, and that a file is the right one."""

import logging
from pathlib import Path
from typing import NamedTuple

import pooch

from forecast.errors import UserError, closest

_log = logging.getLogger(__name__)
_ETT = "https://raw.githubusercontent.com/zhouhaoyi/ETDataset/main/ETT-small"
_PATIENCE = 10  # seconds for a server to answer
_REASONS = {  # requests' name of an error: its plain meaning
    "ConnectionError": "no network, or the server cannot be reached",
    "ConnectTimeout": "no network, or the server cannot be reached",
    "ReadTimeout": "the server does not answer",
    "ProxyError": "the proxy does not let it through",
}


class PublishedFile(NamedTuple):
    """One file: its size in bytes, its MD5 and its address."""

    size: int
    md5: str
    url: str


CATALOG: dict[str, PublishedFile] = {
    "ETTh1": PublishedFile(2589657, "8381763947c85f4be6ac456c508460d6", f"{_ETT}/ETTh1.csv"),
    "ETTh2": PublishedFile(2417960, "51a229a3fc13579dd939364fefe9c7ab", f"{_ETT}/ETTh2.csv"),
    "ETTm1": PublishedFile(10360719, "82d6bd89109c63d075d99c1077b33f38", f"{_ETT}/ETTm1.csv"),
    "ETTm2": PublishedFile(9677236, "7687e47825335860bf58bccb31be0c56", f"{_ETT}/ETTm2.csv"),
}


def published_file(name: str) -> PublishedFile:
    """The catalog's file of that name; UserError with the nearest name for an unknown one."""
    if name not in CATALOG:
        raise UserError(
            f"The catalog has no data set '{name}', only {', '.join(CATALOG)}.{closest(name, CATALOG)} "
            "For a file of your own use data=csv data.path=my.csv."
        )
    return CATALOG[name]


def locate(name: str, root: Path | str) -> Path:
    """The file root/NAME.csv, verified; downloaded (pooch) when it is not there.

    UserError for an unknown name, a file that is not the published one, and a download that fails.
    """
    known, path = published_file(name), Path(root) / f"{name}.csv"
    if not is_there(path):
        _download(path, known)
    elif not path.is_file():
        raise UserError(f"{path} is not a file. Remove it, or set FORECAST_DATA or data.root to another folder.")
    elif (md5 := file_md5(path)) != known.md5:
        raise UserError(
            f"{path} is not the published file: expected {known.size} bytes with MD5 {known.md5}, found "
            f"{path.stat().st_size} bytes with MD5 {md5}. Remove it to download it anew (a file with CRLF "
            "line ends counts as another), or read it as your own with data=csv data.path=..."
        )
    return path


def is_there(path: Path) -> bool:
    """Whether there is something of that name. UserError for one that cannot be asked for, such as a too long name."""
    try:
        return path.exists()
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}. Check the path and its permissions.") from error


def file_md5(path: Path | str) -> str:
    """The MD5 of a file's bytes, in hexadecimal. UserError when it cannot be read."""
    try:
        return str(pooch.file_hash(path, alg="md5"))
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}. Check the path and its permissions.") from error


def _download(path: Path, known: PublishedFile) -> None:
    _log.info("Downloading %s to %s", known.url, path)
    pooch.get_logger().setLevel(logging.WARNING)  # one line, ours, is enough
    try:
        # pooch writes to a temporary name and moves the file when its checksum is right.
        pooch.retrieve(
            known.url,
            known_hash=f"md5:{known.md5}",
            fname=path.name,
            path=path.parent,
            downloader=pooch.HTTPDownloader(timeout=_PATIENCE),
        )
    # Every network error of requests is an OSError, a wrong checksum a ValueError.
    except (OSError, ValueError) as error:
        reason = _REASONS.get(type(error).__name__) or (str(error).splitlines() or [""])[0].rstrip(".")
        raise UserError(
            f"{path} is not there and its download failed: {reason[:200]}{'...' if len(reason) > 200 else ''}. "
            f"Get it from {known.url} ({known.size} bytes, MD5 {known.md5}) and put it at {path.absolute()}, "
            "or point FORECAST_DATA or data.root to the folder that holds it. data=demo needs no download."
        ) from error
