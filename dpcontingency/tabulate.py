"""From records to confidential counts, counted in the engine that holds the records."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from dpcontingency._counting import FAULTS, Count, Factor, Groups, cover
from dpcontingency._language import argument, phrase
from dpcontingency._lazy import later
from dpcontingency._records import column_positions, shielded, source_of
from dpcontingency._weights import Weights, WeightsAre, checked_weights
from dpcontingency.domain import Domain, Label, label_text
from dpcontingency.errors import DomainError, PrecisionWarning, RecordsError, did_you_mean
from dpcontingency.table import (
    MAX_CELLS,
    ConfidentialMargins,
    ContingencyTable,
    check_joint_size,
)

if TYPE_CHECKING:
    import pandas as pd
else:
    pd = later("pandas")

MAX_LABELS = 20

# So many records are looked at first, so that a wrong column is found before a long scan of it.
LOOK = 2**16
MEMORY_IS_FAST = 2**20  # records in memory that need no such look

Recode = Mapping[str, Mapping[Label, Label]]


def tabulate(
    records: object,
    domain: Domain,
    *,
    weights: str | None = None,
    weights_are: WeightsAre | None = None,
    missing: str = "error",
    recode: Recode | None = None,
    remote: bool = False,
) -> ContingencyTable:
    """Count records into the cells of a declared domain.

    Parameters
    ----------
    records : DataFrame, pyarrow Table, Ibis table, str or path
        One row a record, with a column for each factor; other columns are ignored. A pandas or
        polars DataFrame, a pyarrow Table, the path or glob of CSV (comma-separated, UTF-8, one
        header line, ``.gz`` and ``.zst`` too) or Parquet files, or an Ibis table, which is counted
        in its own engine. In CSV every field is text, so that ``01`` stays ``01``, and an empty
        field is a missing value.
    domain : Domain
        The public factors and levels. Values match levels by their text, which for the numbers
        ``1`` and ``1.0`` is ``"1"``; the text ``"1.0"``, as in a CSV file, is another. A factor
        with bins needs a column of numbers (in CSV, text that reads as numbers), and each number
        falls into the bin that holds it. Decimals and the numbers of a CSV file are compared in
        double precision, so that the digits of one that come after the 15th can be lost beside an
        edge.
    weights : str, optional
        The column that says how many records a row stands for (frequency form): a row of weight w
        is w records of w people, and may move w records. It is never guessed: records with a
        column named like one are refused until it is named or dropped.
    weights_are : {"frequency", "survey"}, optional
        Your word that the weights are frequencies. Needed where they look like weights of a survey,
        in which a row is one person, whose loss would be w times the one that is stated: where the
        name of the column has "weight", "wgt" or "wght" in it, or "wt" at an end of a word (PWGTP,
        WTINT2YR, perwt); or where 100 rows or more come as at least 10 rows for each combination
        of the factors, and fewer than 5 % of them have a weight of 0 or 1. Weights of a survey
        cannot be counted yet.
    missing : str, optional
        What to do with nulls and NaN: ``"error"``; ``"drop"``, which leaves out each record that
        lacks a factor; or the text of a level, which counts each of them as that level of its
        factor.
    recode : mapping of str to mapping, optional
        For a factor, which values stand for which level, such as ``{"sex": {"M": "male"}}``; other
        values count as themselves. Public, like the domain, and done in the engine.
    remote : bool, optional
        Whether a path may be an address, such as ``https://...`` or ``s3://...``; by default it is
        refused. DuckDB reads addresses by its extension httpfs (azure for ``az://``), which you
        must have installed: no code is ever fetched.

    Returns
    -------
    ContingencyTable
        The confidential counts, one for every declared cell.

    Raises
    ------
    RecordsError
        If a factor has no column, or a value that is missing or not declared; if a record lies in
        a structural zero; if the weights are not whole non-negative numbers, or look like those of
        a survey; if the joint table is too large; or if the records cannot be read, or are at an
        address without ``remote``. Undeclared values, and names of columns that you did not name,
        are in the ``labels`` of the error and never in its message; what the engine says is
        withheld, for it may quote records.
    DomainError
        If ``domain`` is none; or if ``recode`` names a factor or level that is not declared, or
        recodes None or NaN, which ``missing`` is for.

    Warns
    -----
    PrecisionWarning
        If the weights are of type float32, which does not hold all whole numbers above 2^24.

    Notes
    -----
    The domain must be public knowledge: levels read off the records would reveal which values
    occur. The table that `missing` = ``"drop"`` makes has ``n_is_public`` False, whether or not
    anything was dropped, because the number of complete records is a fact about the records.

    One grouped count runs in the engine and only distinct combinations come back, at most one more
    than declared values can make: a column of identifiers given by mistake is not downloaded. In
    files and other engines the first records are looked at before the others.

    Apache Spark is reached through Ibis. With ``pip install 'dpcontingency[spark]'`` and Java 17,
    ``ibis.pyspark.connect(SparkSession.builder.getOrCreate())`` starts it, ``.table("records")``
    of what that returns is an Ibis table, and the counting runs on the cluster.

    Examples
    --------
    >>> import pandas as pd
    >>> domain = Domain({"dose": ["low", "mid", "high"], "ill": ["no", "yes"]})
    >>> records = pd.DataFrame({"dose": ["low", "high", "high"], "ill": ["no", "no", "yes"]})
    >>> table = tabulate(records, domain)
    >>> table
    <ContingencyTable dose: 3, ill: 2; counts confidential>
    >>> table.counts.tolist()
    [[1, 0], [0, 0], [1, 1]]
    """
    _check_domain(domain)
    check_joint_size(domain)
    how = _How(weights, weights_are, missing, recode, remote)
    (counts,) = _counted(records, domain, [domain.names], how)
    return ContingencyTable(counts, domain, n_is_public=missing != "drop", missing=str(missing))


def tabulate_margins(
    records: object,
    domain: Domain,
    margins: Sequence[Sequence[str]],
    *,
    weights: str | None = None,
    weights_are: WeightsAre | None = None,
    missing: str = "error",
    recode: Recode | None = None,
    remote: bool = False,
) -> ConfidentialMargins:
    """Count records into chosen margins of a domain, whose joint table need not exist.

    Parameters
    ----------
    records, domain, weights, weights_are, missing, recode, remote
        As in `tabulate`. Factors that are in no margin are not read.
    margins : sequence of sequences of str
        The factors of each margin.

    Returns
    -------
    ConfidentialMargins
        The confidential counts. Every margin is of the same records: with `missing` = ``"drop"``,
        of those that lack none of the factors in any margin.

    Raises
    ------
    RecordsError
        As `tabulate` of the factors in the margins would; or if the margins together have too many
        cells, or the records change while they are counted.
    DomainError
        If a margin names an unknown factor, or is there twice.

    Notes
    -----
    Factors are put into blocks that hold many margins each and few cells. Where the engine has
    grouping sets (DuckDB, Spark, PostgreSQL), all blocks are counted in one pass over the records;
    elsewhere in a pass for each block.

    Examples
    --------
    >>> import pandas as pd
    >>> domain = Domain({f"q{i}": ["no", "yes"] for i in range(50)})
    >>> domain.size
    1125899906842624
    >>> records = pd.DataFrame({name: ["yes", "no", "yes"] for name in domain.names})
    >>> counted = tabulate_margins(records, domain, [("q0", "q1"), ("q49",)])
    >>> counted
    <ConfidentialMargins 2 margins of 3 factors; counts confidential>
    >>> counted.margin("q0", "q1").counts.tolist()
    [[1, 0], [0, 2]]
    """
    _check_domain(domain)
    asked = _checked_margins(domain, margins)
    named = [name for name in domain.names if any(name in margin for margin in asked)]
    part = domain.project(named)
    # A record in a structural zero is an error also where no margin shows it.
    zeros = {tuple(zero): None for zero in part.structural_zeros}
    unseen = [zero for zero in zeros if not any(set(zero) <= set(margin) for margin in asked)]
    how = _How(weights, weights_are, missing, recode, remote)
    counts = _counted(records, part, [*asked, *unseen], how)
    public, policy = missing != "drop", str(missing)
    tables = [
        ContingencyTable(values, part.project(names), n_is_public=public, missing=policy)
        for names, values in zip([*asked, *unseen], counts, strict=True)
    ]
    return ConfidentialMargins(tables[: len(asked)], domain)


class _How(NamedTuple):
    """How records are to be counted, as the caller said it."""

    weights: str | None
    weights_are: WeightsAre | None
    missing: str
    recode: Recode | None
    remote: bool


def _check_domain(domain: object) -> None:
    if not isinstance(domain, Domain):
        raise DomainError(
            'Records are counted over a Domain, such as Domain({"sex": ["m", "f"]}); got '
            f"{type(domain).__name__}."
        )


def _checked_margins(domain: Domain, margins: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
    sequences = isinstance(margins, Sequence) and not isinstance(margins, str) and margins
    if not sequences or not all(isinstance(margin, Sequence) for margin in margins):
        raise DomainError(
            'The margins are a sequence of sequences of factors, such as [("A", "B"), ("C",)]; got '
            f"{margins!r}."
        )
    asked = [domain.project(margin).names for margin in margins]
    for i, margin in enumerate(asked):
        if any(set(margin) == set(other) for other in asked[:i]):
            raise DomainError(f"The margin of {', '.join(margin)} is asked for twice.")
    cells = sum(domain.project(margin).size for margin in asked)
    if cells > MAX_CELLS:
        raise RecordsError(
            f"The margins have {cells:,} cells together, more than the {MAX_CELLS:,} that may be "
            "held at once. Ask for smaller margins, or for fewer at a time."
        )
    return asked


def _counted(
    records: object, domain: Domain, sets: Sequence[tuple[str, ...]], how: _How
) -> list[npt.NDArray[np.int64]]:
    """The counts over each set of factors, with the axes in its order."""
    factors = _factors(domain, how.missing, how.recode)
    blocks = cover([frozenset(map(domain.axis, names)) for names in sets], domain.shape)
    with source_of(records, remote=how.remote) as source:
        weights = checked_weights(how.weights, how.weights_are, source.columns, domain.names)
        at = column_positions(source, domain.names)
        at += [] if weights is None else column_positions(source, [weights.column], "weights")
        drop = how.missing == "drop"
        count = Count(factors, blocks, source, drop=drop, weighted=weights is not None)
        taken = shielded(source.take, at)
        if weights is not None and taken[taken.columns[-1]].type().is_float32():
            # Whatever the weights are: whether one is so large is confidential.
            warnings.warn(
                f"The weights in {weights.column!r} come as float32, which cannot hold whole "
                "numbers above 2^24: larger ones may have lost digits. Use float64 or integers.",
                PrecisionWarning,
                stacklevel=3,
            )
        if source.size > MEMORY_IS_FAST:
            _tables(count, taken.limit(LOOK), weights)
        tables = _tables(count, taken, weights, whole=True)
    out = []
    for names in sets:
        axes = [domain.axis(name) for name in names]
        block = next(block for block in blocks if block.issuperset(axes))
        kept = [axis for axis in sorted(block) if axis in axes]
        dropped = tuple(i for i, axis in enumerate(sorted(block)) if axis not in axes)
        counts = tables[block].sum(axis=dropped)
        out.append(counts.transpose([kept.index(axis) for axis in axes]))
    return out


def _tables(
    count: Count, table: object, weights: Weights | None, *, whole: bool = False
) -> dict[frozenset[int], npt.NDArray[np.int64]]:
    """The counts over each block of factors, its axes in the domain's order."""
    found, seen = {}, []
    for block, groups in count.groups(table):
        seen.append(groups)
        factors = [count.factors[axis] for axis in sorted(block)]
        cells = tuple(_codes(groups, factor, count.fills) for factor in factors)
        if weights is not None and (fault := max(groups["fault"].to_pylist(), default=0)):
            raise RecordsError(
                f"The weights in {weights.column!r} cannot be used: {FAULTS[fault]}. Weights are "
                "non-negative whole numbers: how many records a row stands for."
            )
        counts = np.zeros([factor.size for factor in factors], dtype=np.int64)
        np.add.at(counts, cells, groups["n"].to_numpy())
        found[block] = counts
    if whole and weights is not None:  # the first records alone may be of one group
        weights.check_rows(seen)
    if len({int(counts.sum()) for counts in found.values()}) > 1:
        raise RecordsError(
            "The records changed while they were counted, so the margins do not agree. Count a "
            "copy that stays as it is."
        )
    return found


# ------------------------------------------------------------------ what is declared


def _factors(domain: Domain, missing: str, recode: Recode | None) -> list[Factor]:
    """Say of each factor how its values are to be read."""
    fills = _fills(missing, domain)
    recoded = _recoded(recode, domain)
    factors = []
    for axis, name in enumerate(domain.names):
        cut = domain.bins.get(name)
        # The levels of bins are found by comparing, the others by their text.
        by_text = {t: i for t, i in domain.positions(name).items() if cut is None or i >= len(cut)}
        size = len(domain.levels[name])
        factors.append(
            Factor(name, axis, size, by_text, cut, fills.get(name), recoded.get(name, {}))
        )
    return factors


def _fills(missing: str, domain: Domain) -> dict[str, int]:
    """For each factor in which a null counts as a level, the position of that level."""
    if missing in ("error", "drop"):
        return {}
    text = label_text(missing)
    positions = {name: domain.positions(name) for name in domain.names}
    fills = {name: known[text] for name, known in positions.items() if text in known}
    if not fills:
        raise RecordsError(
            f"{argument('missing', missing)} is neither 'error' nor 'drop', and no factor "
            "declares it as a level. Declare that level in the domain to count missing values in "
            "it, of a factor with bins after the labels of all bins."
        )
    return fills


def _recoded(recode: Recode | None, domain: Domain) -> dict[str, dict[str, int]]:
    """For each recoded factor, the position of the level that each text stands for."""
    out: dict[str, dict[str, int]] = {}
    if not isinstance(recode or {}, Mapping):
        raise DomainError('`recode` maps factors to mappings, such as {"sex": {"M": "male"}}.')
    for name, mapping in (recode or {}).items():
        if name not in domain.names:
            raise DomainError(
                f"`recode` names {name!r}, which is no factor of these; "
                f"{did_you_mean(str(name), domain.names)}"
            )
        if not isinstance(mapping, Mapping):
            raise DomainError(
                f"`recode` maps the values of {name!r} to levels, as in {{{name!r}: "
                f"{{'M': 'male'}}}}; got {mapping!r}."
            )
        if any(pd.api.types.is_scalar(value) and pd.isna(value) for value in mapping):
            raise DomainError(
                f"`recode` of {name!r} has a missing value (None or NaN) among those to recode: "
                "pass missing='<the level>' to count missing values as a level."
            )
        known = domain.positions(name)
        targets = {label_text(v): domain.index(name, level) for v, level in mapping.items()}
        for text, position in targets.items():
            if known.get(text, position) != position:
                raise DomainError(
                    f"`recode` makes {text!r} of {name!r} another level, but it is a level itself: "
                    "rename the level in the domain, or leave the value alone."
                )
        if len(targets) < len(mapping):
            raise DomainError(f"`recode` has two values of {name!r} with the same text.")
        out[name] = targets
    return out


# ------------------------------------------------------------------ from values to levels


def _codes(groups: Groups, factor: Factor, fills: bool) -> npt.NDArray[np.intp]:
    """Find the position of each group's level, or say what is wrong with the values."""
    codes, values, known = factor.codes(groups)
    if (codes == Factor.UNDECLARED).any():
        labels = [v for v, code in zip(values, known, strict=True) if code == Factor.UNDECLARED]
        what = "lie in none of its bins" if factor.bins else "the domain does not declare"
        shows = phrase(
            " (in Python the `labels` of this error show them: they are confidential)", ""
        )
        raise RecordsError(
            f"Factor {factor.name!r} has values that {what}{shows}. {factor.remedy} or recode the "
            "records.",
            labels=tuple(sorted(labels, key=label_text)[:MAX_LABELS]),
        )
    if (codes == Factor.MISSING).any():
        also = ", and does not declare the level that stands for them" if fills else ""
        raise RecordsError(
            f"Factor {factor.name!r} has missing values{also}. Pass "
            f"{argument('missing', 'drop')} to leave out every record that lacks a factor; or "
            "declare a level for them in "
            f"{factor.name!r} and pass {argument('missing', '<that level>')}; or mend the records."
        )
    return codes
