"""What may be declared as levels, bins and scores of a factor, and why not where it may not."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from dpcontingency._labels import Label, label_text
from dpcontingency.bins import Bins
from dpcontingency.errors import DomainError, shown

MAX_LEVELS = 10**6  # of a factor
DIGITS = 1000  # of a level that is a whole number; Python writes no number of more than 4,300
LARGEST_LABEL = 10**DIGITS - 1


def with_bins(
    levels: Mapping[str, Sequence[Label]], bins: Mapping[str, Bins] | None
) -> tuple[Mapping[str, Sequence[Label]], dict[str, Bins]]:
    """The levels with those of the bins, and the bins, after checking that they fit."""
    if not bins:
        return levels, {}
    if not isinstance(bins, Mapping) or not all(isinstance(cut, Bins) for cut in bins.values()):
        raise DomainError(
            '`bins` is a mapping of factor to Bins, such as {"age": Bins([0, 18, 65, 120])}.'
        )
    if not isinstance(levels, Mapping):
        return levels, {}  # refused by who called
    levels = {**levels, **{name: cut.labels for name, cut in bins.items() if name not in levels}}
    for name, cut in bins.items():
        if len(checked_levels(name, levels[name])) < len(cut):
            raise DomainError(
                f"Factor {name!r} has {len(cut)} bins and fewer levels: give each bin a label, in "
                "order, or leave the factor out of the levels to have labels made from the edges. "
                "A level for missing values comes after them: [*Bins(edges).labels, 'missing']."
            )
    return levels, dict(bins)


def checked_levels(name: str, values: Sequence[Label]) -> tuple[Label, ...]:
    """The levels of a factor, plain and all different."""
    if not isinstance(name, str) or not name:
        raise DomainError(f"A factor name is non-empty text; got {shown(name)}.")
    ordered = isinstance(values, Sequence | np.ndarray) or hasattr(values, "to_list")
    if isinstance(values, str | bytes) or not ordered:
        raise DomainError(
            f"The levels of {shown(name)} are a sequence of labels; got {shown(values)}."
        )
    if len(values) > MAX_LEVELS:
        raise DomainError(
            f"Factor {shown(name)} has {len(values):,} levels, more than the {MAX_LEVELS:,} that a "
            "factor may have: group them."
        )
    levels = tuple(v.item() if isinstance(v, np.generic) else v for v in values)
    if not levels:
        raise DomainError(f"Factor {name!r} has no level: declare at least one.")
    for level in levels:
        if isinstance(level, int) and abs(level) > LARGEST_LABEL:
            raise DomainError(
                f"A level of factor {name!r} is a number of more than {DIGITS:,} digits: "
                "declare it as text."
            )
        finite = not isinstance(level, float) or math.isfinite(level)
        if not isinstance(level, str | int | float | bool) or not finite:
            raise DomainError(
                f"A level is text, an integer, a finite number or a boolean; factor {name!r} has "
                f"{shown(level)}. To count missing values, declare a text level such as 'missing'."
            )
    texts = Counter(map(label_text, levels))
    twice = [text for text, times in texts.items() if times > 1]
    if twice:
        raise DomainError(f"Factor {name!r} has the level {twice[0]!r} twice: levels must differ.")
    return levels


def unquoted_levels(title: str, name: str, values: Sequence[Label]) -> tuple[Label, ...]:
    """The levels of a factor that is read off data, of which an error quotes nothing."""
    try:
        return checked_levels(name, values)
    except DomainError:
        pass  # raised below, where it has no context
    raise DomainError(
        f"{title} is no factor: a factor has a name and at least one level, and levels are text, "
        "finite numbers or booleans that differ as text. Mend the column, or leave it out."
    )


def checked_scores(
    name: str, values: Sequence[float], levels: Sequence[Label]
) -> tuple[float, ...]:
    """The scores of a factor's levels, one a level."""
    try:
        scores = tuple(float(v) for v in values)
    except (TypeError, ValueError):
        scores = ()
    if len(scores) != len(levels) or not all(map(math.isfinite, scores)):
        raise DomainError(
            f"Factor {name!r} has {len(levels)} levels and needs as many scores, each a finite "
            f"number; got {shown(values)}."
        )
    return scores
