"""The files that the cases read, made by fixed seeds: nothing of them is committed."""

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

Draw = np.random.Generator


def write_files(folder: Path) -> None:
    """Writes all of them into a folder."""
    folder.mkdir(parents=True)
    draw = np.random.default_rng(7)
    single_series(folder, draw)
    roles(folder, draw)
    panels(folder, draw)
    odd_files(folder, draw)


def wave(draw: Draw, rows: int, period: float = 24, *, level: float = 10.0, noise: float = 0.3) -> Any:
    """A season with noise on a slow slope, (rows,)."""
    steps = np.arange(rows)
    return np.round(level + 2 * np.sin(2 * np.pi * steps / period) + steps / rows + draw.normal(0, noise, rows), 4)


def save(path: Path, table: pd.DataFrame, **options: Any) -> None:
    """A CSV without the index."""
    table.to_csv(path, index=False, lineterminator="\n", **options)


def hours(rows: int) -> pd.DatetimeIndex:
    """Hours from the first day of March 2024 on: a change to summer time is among them."""
    return pd.date_range("2024-03-01", periods=rows, freq="h")


def single_series(folder: Path, draw: Draw) -> None:
    """hours.csv and its longer forms for update; gaps.csv without some rows and cells; short.csv; drift.csv."""
    rows = 760
    load = wave(draw, rows)
    table = {"date": hours(rows), "load": load, "price": np.round(0.5 * load + draw.normal(0, 0.2, rows), 4)}
    full = pd.DataFrame({**table, "temperature": wave(draw, rows, level=15), "OT": np.roll(load, 3) + 1})
    for count in (700, 712, 730):
        save(folder / f"hours_{count}.csv", full[:count])
    save(folder / "new_rows.csv", full[730:])
    gaps = full[:700].copy()
    gaps.loc[[50, 51, 300, 655], "price"] = np.nan
    save(folder / "gaps.csv", gaps.drop(index=[120, 121, 410, 560]))
    save(folder / "short.csv", full[:40])
    drift = full[:700].copy()
    drift["OT"] = drift["OT"] + np.linspace(0, 6, 700) ** 2
    save(folder / "drift.csv", drift)


def roles(folder: Path, draw: Draw) -> None:
    """shop.csv: a target, what is known in advance, observed, a category; tomorrow.csv: the known of the next steps."""
    rows, ahead = 700, 12
    promo, weather = (draw.random(rows + ahead) < 0.2).astype(int), draw.choice(["dry", "rain", "snow"], rows + ahead)
    visits = wave(draw, rows + ahead, level=30)
    days = pd.date_range("2022-02-01", periods=rows + ahead, freq="D")
    sales = np.round(wave(draw, rows + ahead, 7) + 3 * promo - 2 * (weather == "rain") + 0.1 * visits, 4)
    table = pd.DataFrame({"date": days, "promo": promo, "weather": weather, "visits": visits, "sales": sales})
    save(folder / "shop.csv", table[:rows])
    save(folder / "tomorrow.csv", table[rows:][["date", "promo", "weather"]])


def panels(folder: Path, draw: Draw) -> None:
    """One panel of several lengths in each layout, without and with gaps, with a known column and facts of series."""
    parts = []
    for number, rows in enumerate((150, 138, 150, 61, 150, 20)):
        days = pd.date_range("2023-01-01", periods=150, freq="D")[150 - rows :]
        promo = (draw.random(rows) < 0.2).astype(int)
        value = np.round(wave(draw, rows, 7, level=20 + 5 * number) + 2 * promo, 4)
        facts = {"size": 10 * (number + 1), "brand": f"b{number % 3}"}
        parts.append(pd.DataFrame({"unique_id": f"s{number}", "date": days, "promo": promo, "value": value, **facts}))
    full = pd.concat(parts, ignore_index=True)
    plain = full[["unique_id", "date", "value"]]
    save(folder / "long_roles.csv", full)
    save(folder / "long.csv", plain)
    plain.to_parquet(folder / "long.parquet")
    kept = draw.random(len(plain)) > 0.04
    save(folder / "long_gaps.csv", plain[kept])
    wide = plain.pivot(index="date", columns="unique_id", values="value")[["s0", "s2", "s4"]].reset_index()
    save(folder / "wide.csv", wide)
    save(folder / "wide_gaps.csv", wide.mask(draw.random(wide.shape) < [[0.0] + 3 * [0.04]]))


def odd_files(folder: Path, draw: Draw) -> None:
    """What people have: to be read, or to be refused in a sentence."""
    rows = 400
    days = pd.date_range("2022-01-01", periods=rows, freq="D")
    months = [int(f"{month:%Y%m}") for month in pd.date_range("1990-01-01", periods=240, freq="MS")]
    plain = pd.DataFrame({"date": days, "y": wave(draw, rows, 7)})
    save(folder / "semicolons.csv", plain.assign(date=days.strftime("%d.%m.%Y")), sep=";", decimal=",")
    save(folder / "day_first.csv", plain.assign(date=days.strftime("%d/%m/%Y")))
    save(folder / "unix_ms.csv", pd.DataFrame({"ts": days.as_unit("ms").astype("int64"), "y": plain["y"]}))
    save(folder / "no_time.csv", plain[["y"]])
    save(folder / "month_numbers.csv", pd.DataFrame({"month": months, "y": wave(draw, 240, 12)}))
    weeks = pd.date_range("2015-01-05", periods=260, freq="7D").strftime("%G-W%V")
    save(folder / "iso_weeks.csv", pd.DataFrame({"week": weeks, "y": wave(draw, 260, 52)}))
    save(folder / "thousands.csv", plain.assign(y=[f"{1000 * one:,.2f}" for one in plain["y"]]))
    save(folder / "duplicates.csv", pd.concat([plain, plain[100:103]]))
    save(folder / "unsorted.csv", plain.sample(frac=1, random_state=7))
    words = [*plain["y"][:17], "broken", *plain["y"][18:]]
    save(folder / "words.csv", plain.assign(y=words))
    save(folder / "missing_days.csv", plain.drop(index=[30, 31, 32, 90, 200]))
    save(folder / "sparse_days.csv", plain[draw.random(rows) < 0.6])
    save(folder / "constant.csv", plain.assign(site=3567500, copy=plain["y"], row=np.arange(rows)))
    save(folder / "random_walk.csv", plain.assign(y=np.round(np.cumsum(draw.normal(size=rows)), 4)))
    save(folder / "counts.csv", plain.assign(y=draw.poisson(3, rows) * (draw.random(rows) < 0.3)))
    parts = {"year": days.year, "month": days.month, "day": days.day}
    save(folder / "two_times.csv", pd.DataFrame({**parts, "y": plain["y"]}))
    save(folder / "same_names.csv", pd.concat([plain, plain["y"]], axis=1))
    save(folder / "header_alone.csv", plain[:0])
    (folder / "empty.csv").write_bytes(b"")
    (folder / "title_above.csv").write_text("# exported by meter 7\nDaily report;;\n" + plain.to_csv(index=False))
    (folder / "latin.csv").write_bytes(plain.rename(columns={"y": "Wärme"}).to_csv(index=False).encode("latin-1"))
    (folder / "packed.csv.gz").write_bytes(gzip.compress(plain.to_csv(index=False).encode(), mtime=0))
    (folder / "ragged.csv").write_text(plain.to_csv(index=False) + "2023-02-05,1.0,2.0,3.0\n")
    plain.to_excel(folder / "sheet.xlsx", index=False)
