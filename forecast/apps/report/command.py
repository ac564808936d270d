"""Compares the runs of a sweep.

Runs that differ in their seed alone are one row: mean and spread of the error, its cost, and the difference to a chosen
row with a 95 % interval, on the windows that both have forecast. Writes report.md, report.csv, report.html and
runs.jsonl into the folder. Failed and unfinished runs are listed with the reason. With --page the folder
is that of one run, whose report.html is written anew.
"""

import argparse

from forecast.apps.common.command import Answer
from forecast.errors import UserError


def main(arguments: argparse.Namespace) -> Answer:
    """Reads the folder, writes the comparison, prints report.md; with --page the page of one run."""
    try:
        if arguments.page:
            from forecast.apps.common.page import remake  # torch, which a comparison does not wait for

            return remake(arguments.folder, overwrite=arguments.overwrite)
        from forecast.apps.report.compare import write_report  # SciPy, which a page does not wait for

        return write_report(
            arguments.folder,
            arguments.to or arguments.folder,
            arguments.against,
            overwrite=arguments.overwrite,
            output_safe=arguments.output_safe,
        )
    except BrokenPipeError:  # `| head` has read enough
        raise
    except OSError as error:
        where = f"{error.filename}: {error.strerror}."
        raise UserError(f"{where} Choose a folder that you can write to: --to DIR") from error
