"""Records to a draft of a domain file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpcontingency import _writing
from dpcontingency._commands import echo
from dpcontingency._commands._shared import (
    Force,
    Json,
    Remote,
    epilog,
    fresh,
    print_facts,
    print_json,
)
from dpcontingency._draft import look_at, text_of
from dpcontingency._records import files_of
from dpcontingency.errors import DomainError
from dpcontingency.privacy.stamp import NOT_PRIVATE

JSON_KEYS = ("output", "observed", "factors", "ordered", "bins", "left_out")
EPILOG = epilog(
    ["dpcontingency init records.csv --output draft.yaml"],
    {"": JSON_KEYS},
    f"""The file is CONFIDENTIAL until you have confirmed it, and so is what the
command prints: names of columns, and levels, which are the values that occur
in the records. To confirm, edit the levels to those that
are publicly known and delete the line "observed: true"; a release that is
made before is stamped {NOT_PRIVATE}.""",
)


def run(
    records: Annotated[
        str,
        typer.Argument(metavar="RECORDS", help="CSV or Parquet file, or a quoted glob of them."),
    ],
    output: Annotated[
        Path, typer.Option(metavar="FILE", help="Where to write the domain file (YAML).")
    ] = Path("domain.yaml"),
    factor: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN", help="Column to make a factor of; may be repeated. [default: all]"
        ),
    ] = None,
    remote: Remote = False,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Draft a domain file from records, for you to edit and confirm.

    Columns of few values become factors, with the values that occur for levels, in order. Numbers
    of many values are left to bins, whose edges only you can choose; identifiers, dates and counts
    are left out, and the file says why.
    """
    target = fresh(output, force, *files_of(records))
    columns = look_at(records, factor, remote=remote)
    _writing.write_text(target, text_of(columns), DomainError, _writing.OWNER_ONLY)
    factors = [column for column in columns if column.kind == "factor"]
    left = [column for column in columns if column.kind not in ("factor", "numbers")]
    bins = [column.name for column in columns if column.kind == "numbers"]
    if as_json:
        print_json(
            {
                "output": str(target),
                "observed": True,
                "factors": {column.name: len(column.levels) for column in factors},
                "ordered": [column.name for column in factors if column.ordered],
                "bins": bins,
                "left_out": {column.name: column.kind for column in left},
            }
        )
        return
    print_facts(
        {
            "Factors": ", ".join(f"{_shown(c.name)} ({len(c.levels)})" for c in factors),
            **(
                {"For bins": f"{', '.join(map(_shown, bins))} (you choose the edges)"}
                if bins
                else {}
            ),
            **({"Left out": ", ".join(_shown(c.name) for c in left)} if left else {}),
        }
    )
    echo(
        f"{target} is CONFIDENTIAL until you have confirmed its levels and deleted the line "
        '"observed: true". It says why columns were left out.'
    )


def _shown(name: str) -> str:
    """A column's name, or that it has none."""
    return name or repr(name)
