"""What commands share: options, files, names in a text, and what is printed."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeAlias

import typer

from dpcontingency import _writing
from dpcontingency._commands import echo
from dpcontingency._labels import json_on_lines
from dpcontingency.domain import Domain
from dpcontingency.errors import DomainError, DPContingencyError, did_you_mean
from dpcontingency.inference.cells import AnyRelease
from dpcontingency.inference.loglinear import LogLinearModel
from dpcontingency.privacy.gdp import GDP
from dpcontingency.privacy.neighbours import RELATIONS
from dpcontingency.release.release import load_release


class CommandLineError(DPContingencyError):
    """The options contradict each other, or name an output that may not be written."""


def misuse(message: str) -> NoReturn:
    """Refuse what was asked for."""
    raise CommandLineError(message)


def epilog(examples: Sequence[str], json_keys: Mapping[str, Sequence[str]], more: str = "") -> str:
    """What stands under the options of a command; every example is run by the tests."""
    # A backspace keeps the lines of a paragraph of help as they are.
    parts = ["\b\nExample:\n" + "\n".join(f"  {line}" for line in examples)]
    if more:
        parts.append(f"\b\n{more}")
    objects = [
        f"{f'{of}, ' if of else ''}with the keys {', '.join(keys)}"
        for of, keys in json_keys.items()
    ]
    parts.append(f"With --json, one object{'' if '' in json_keys else ':'} {'; '.join(objects)}.")
    return "\n\n".join(parts)


# ------------------------------------------------------------------ options


def one_of(known: Iterable[str]) -> Callable[[str | None], str | None]:
    """The callback of an option that is one of some names."""
    names = tuple(known)

    def checked(
        context: typer.Context, option: typer.CallbackParam, value: str | None
    ) -> str | None:
        if value is not None and value not in names and not context.resilient_parsing:
            misuse(f"There is no {option.opts[0]} {value!r}; {did_you_mean(value, names)}")
        return value

    return checked  # type: ignore[return-value]


def choice(known: Iterable[str], help_text: str) -> Any:
    """An option that is one of some names, which the shell completes."""
    names = tuple(known)
    return typer.Option(
        metavar="NAME",
        help=help_text,
        callback=one_of(names),
        autocompletion=lambda incomplete: [n for n in names if n.startswith(incomplete)],
    )


# Names that stand for themselves in every shell. Others would be text that a shell may run.
_UNQUOTED = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_.-]*")


def factors_in_file(context: typer.Context, incomplete: str) -> list[str]:
    """The factors of the release, or of the domain file, that is on the command line already.

    Only those whose names need no quoting: files come from others, and shells insert what is
    offered as it is, or evaluate it.
    """
    try:
        if (release := context.params.get("release")) is not None:
            names = load_release(release).domain.names
        elif (domain := context.params.get("domain")) is not None:
            names = domain_of(domain).names
        else:
            return []
    except DPContingencyError:
        return []  # the shell can complete nothing; the command itself will say why
    return [n for n in names if n.startswith(incomplete) and _UNQUOTED.fullmatch(n)]


ReleaseFile = Annotated[
    Path, typer.Argument(metavar="RELEASE", help="A release file, made by the release command.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")]
Force = Annotated[bool, typer.Option("--force", help="Replace the output file if it exists.")]
Remote = Annotated[
    bool,
    typer.Option(
        "--remote",
        help="Let RECORDS be an address (https://, s3://), read by DuckDB's extension httpfs, "
        "which you must have installed.",
    ),
]
Mu = Annotated[float | None, typer.Option(metavar="X", help="Privacy loss in Gaussian DP.")]
Epsilon = Annotated[
    float | None, typer.Option(metavar="X", help="Or the loss as (epsilon, delta).")
]
Delta = Annotated[float | None, typer.Option(metavar="X", help="With --epsilon.")]
Rho = Annotated[float | None, typer.Option(metavar="X", help="Or the loss in zCDP.")]
Relation = Annotated[str, choice(RELATIONS, "replace-one (n is public) or add-remove.")]
Given: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FACTOR",
        help="Factor to condition on, or that makes the groups; may be repeated.",
        autocompletion=factors_in_file,
    ),
]
Strata = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FACTOR",
        help="Factor whose margin is public; repeat for a joint margin.",
        autocompletion=factors_in_file,
    ),
]
Margins = Annotated[
    list[str] | None,
    typer.Option(
        metavar="TEXT",
        help='Margins in the place of the joint table: "A,B;C"; may be repeated.',
    ),
]


def loss(mu: float | None, epsilon: float | None, delta: float | None, rho: float | None) -> GDP:
    """The privacy loss, said in exactly one of three currencies."""
    said = [mu is not None, epsilon is not None or delta is not None, rho is not None]
    if sum(said) != 1:
        misuse("Say the privacy loss in one way: --mu, or --epsilon with --delta, or --rho.")
    if mu is not None:
        return GDP(mu)
    if rho is not None:
        return GDP.from_zcdp(rho)
    if epsilon is None or delta is None:
        misuse("--epsilon and --delta go together, such as --epsilon 1 --delta 1e-6.")
    return GDP.from_epsilon_delta(epsilon, delta)


def model_of(
    release: AnyRelease, generators: str | None, formula: str | None, left_out: str = "margin"
) -> LogLinearModel:
    """The model, said in exactly one of two notations."""
    if (not generators and not formula) or (generators and formula):
        misuse('Say the model in one way: "[A B][B C]", or --formula "A*B + B*C".')
    if formula is not None:
        return LogLinearModel.from_formula(formula, release, left_out=left_out)  # type: ignore[arg-type]
    return LogLinearModel(release, generators or "", left_out=left_out)  # type: ignore[arg-type]


# ------------------------------------------------------------------ files


def fresh(path: Path, force: bool, *others: str | Path | None) -> Path:
    """The path of an output that may be written; asked before any work or privacy is spent.

    It is none of the other files of the command, whatever --force says: writing would destroy
    records, or the books of a ledger. That it can be written is tried, and leaves nothing.
    """
    # By os.path, which answers where pathlib raises: for loops of links and over-long names.
    if os.path.isdir(path):
        misuse(f"{path} is a folder: name a file in it.")
    if not os.path.isdir(path.parent):
        misuse(f"There is no folder {path.parent}: make it, or choose another.")
    if any(_is_same(path, other) for other in others if other is not None):
        misuse(f"{path} is another file of this command too: choose another name for the output.")
    _writing.check_writable(path)
    if path.exists() and not force:
        misuse(f"{path} exists already: choose another name, or pass --force to replace it.")
    return path


def _is_same(one: Path, other: str | Path) -> bool:
    """Whether two names are of one file, whatever links or capitals they are written with."""
    try:
        return os.path.samefile(one, other)
    except OSError:  # one is not there yet
        return os.path.realpath(one) == os.path.realpath(other)


def domain_of(path: Path) -> Domain:
    """The domain in a file."""
    try:
        return Domain.from_yaml(path)
    except DomainError as error:
        text = str(error)
    raise DomainError(text if str(path) in text else f"{path}: {text}")


# ------------------------------------------------------------------ names in a text

_NAME = re.compile(r"\s*(?:`([^`]*)`|([^,;|`]*[^,;|`\s]))\s*([,;|]|$)")


def names_in(text: str, separator: str, option: str, example: str) -> list[list[str]]:
    """Lists of names, names apart by commas and lists by ``separator``.

    Backticks around a name allow anything in it.

    Examples
    --------
    >>> names_in("A,B; C", ";", "--margins", "'A,B;C'")
    [['A', 'B'], ['C']]
    >>> names_in("`a,b`, x y | `c|d`", "|", "--test", "'A,B|C'")
    [['a,b', 'x y'], ['c|d']]
    """
    lists: list[list[str]] = [[]]
    position, end = 0, ","
    while end:
        match = _NAME.match(text, position)
        if match is None or match[3] not in ("", ",", separator):
            misuse(
                f"{option} {text!r} cannot be read: write {example}, with backticks around a "
                "name that holds a comma, a semicolon, a bar or a backtick."
            )
        lists[-1].append(match[1] if match[1] is not None else match[2])
        position, end = match.end(), match[3]
        if end == separator:
            lists.append([])
    return lists


def question(text: str) -> tuple[list[str], list[str]]:
    """The factors and the given ones in ``A,B|C,D``.

    Examples
    --------
    >>> question("Admit,Gender|Dept")
    (['Admit', 'Gender'], ['Dept'])
    """
    sides = names_in(text, "|", "--test", "'A,B' or 'A,B|C'")
    if len(sides) > 2:
        misuse(f"--test {text!r} has more than one bar: write 'A,B|C,D'.")
    return sides[0], sides[1] if len(sides) == 2 else []


def margins_of(texts: Sequence[str]) -> list[list[str]]:
    """The margins in texts such as ``A,B;C``."""
    return [names for text in texts for names in names_in(text, ";", "--margins", "'A,B;C'")]


# ------------------------------------------------------------------ what is printed


def print_json(content: Mapping[str, Any]) -> None:
    """One object; a number that is not finite is null."""
    text = json.dumps(_finite(content), ensure_ascii=False, indent=1, allow_nan=False)
    typer.echo(json_on_lines(text))


def _finite(content: Any) -> Any:
    if isinstance(content, Mapping):
        return {key: _finite(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_finite(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


def print_facts(facts: Mapping[str, str], width: int = 11) -> None:
    """Labelled lines."""
    for label, text in facts.items():
        echo(f"{label + ':':<{width}} {text}")
