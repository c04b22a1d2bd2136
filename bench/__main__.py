"""The command: `python3 -m bench`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from . import draw, jobs, results, run, tables

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    """Gives the exit code."""
    args = parser().parse_args()
    return args.main(args)


def parser() -> argparse.ArgumentParser:
    """The commands and their flags."""
    parser = argparse.ArgumentParser(prog="python3 -m bench", description="Published benchmarks, run here and drawn.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    runs = commands.add_parser("run", help="run the cells of a table and keep the results")
    runs.add_argument("table", choices=[*tables.names(), "house"], help="the table")
    runs.add_argument("--scale", type=float, default=1.0, help="take so much of the rows: 0.01 for a hundredth")
    runs.add_argument("--only", metavar="PATTERN", help="only cells or jobs whose name fits, such as '*RR22*LAN*' or 'kkrt.1048576*'; --dry shows the names of jobs")
    runs.add_argument("--most", type=float, default=2e8, metavar="ROWS", help="no job with more rows than this")
    runs.add_argument("--runs", type=int, metavar="N", help="how often; 3 times up to 2^20 rows by default, and else once")
    runs.add_argument("--again", action="store_true", help="also what has a kept result of this version")
    runs.add_argument("--network", choices=["namespaces", "relay"], help="make slow networks in this way only")
    runs.add_argument("--peer", metavar="PYTHON", help="after each job, the same by SecretFlow: a Python that has spu 0.9.5")
    runs.add_argument("--vesica", default=ROOT / "target" / "release" / "vesica", help="the command to measure")
    runs.add_argument("--data", default=ROOT / "target" / "bench", help="folder for tables, which are large")
    runs.add_argument("--results", default=results.FOLDER, help="folder for results")
    runs.add_argument("--keep-tables", action="store_true", help="do not remove tables when no further job needs them")
    runs.add_argument("--dry", action="store_true", help="only say what would be run")
    runs.set_defaults(main=run.main)
    draws = commands.add_parser("draw", help="write pages and plots from tables and results")
    draws.add_argument("--check", action="store_true", help="write nothing; fail if something is stale or has no result")
    draws.set_defaults(main=draw.main)
    lists = commands.add_parser("list", help="the tables, and how many of their cells have a kept result")
    lists.set_defaults(main=listed)
    return parser


def listed(_) -> int:
    """A line for each table."""
    kept = results.load()
    for name in tables.names():
        table = tables.load(name)
        wanted = [jobs.of_cell(table, cell) for cell in table.cells]
        have = sum(job is not None and results.find(kept, job) is not None for job in wanted)
        print(f"{name:14} {len(table.cells):4} cells, {have:4} with a result of the same size   {table.title}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
