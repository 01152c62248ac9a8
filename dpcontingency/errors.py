"""Every error and warning the package raises, under one root each.

A message is one sentence or two: what was expected, what came, and what to do next. No message
carries a confidential count or a value found in the records; where a caller needs those to mend
the records they are in an attribute.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from numbers import Real

from dpcontingency._labels import on_one_line


class DPContingencyError(Exception):
    """Root of every error of this package; names in its message cannot break the line."""

    def __str__(self) -> str:
        return on_one_line(super().__str__())


class DomainError(DPContingencyError, ValueError):
    """A domain is not well formed, or a factor or level is not in it."""


class RecordsError(DPContingencyError, ValueError):
    """Records, or an array of counts, do not fit the declared domain.

    Attributes
    ----------
    labels : tuple
        The offending values found in the records, confidential and therefore not in the message.
        They are left out when the error is pickled.
    """

    def __init__(self, message: str, labels: tuple[object, ...] = ()) -> None:
        super().__init__(message)
        self.labels = labels

    def __reduce__(self) -> tuple[type[RecordsError], tuple[str]]:
        return type(self), (str(self),)


class ConfidentialityError(DPContingencyError, TypeError):
    """Something would have copied confidential counts out of the process."""


class PrivacyError(DPContingencyError, ValueError):
    """A privacy parameter, or a request for one, makes no sense or cannot be honoured."""


class ReleaseError(DPContingencyError, ValueError):
    """A release cannot be made, read or used as asked."""


class ModelError(DPContingencyError, ValueError):
    """A model cannot be specified, fitted or compared as asked."""


class DPContingencyWarning(UserWarning):
    """Root of every warning of this package; names in its message cannot break the line."""

    def __str__(self) -> str:
        return on_one_line(super().__str__())


class PrecisionWarning(DPContingencyWarning):
    """Numbers arrived with fewer digits than counts need."""


class PlausibilityWarning(DPContingencyWarning):
    """Numbers made elsewhere are hardly what they are said to be."""


class ObservedDomainWarning(DPContingencyWarning):
    """A domain was read off the records, so that its levels are not private."""


class LedgerWarning(DPContingencyWarning):
    """A release was made and paid for, but its ledger could not take note of it."""


class PlanningWarning(DPContingencyWarning):
    """A planned test can see nothing, whatever is spent, or its planned power is rough."""


class ConvergenceWarning(DPContingencyWarning):
    """A fit stopped before it met its tolerance."""


class ExistenceWarning(DPContingencyWarning):
    """Some parameters have no finite maximum-likelihood estimate."""


def check_alpha(alpha: object) -> None:
    """Refuse what is no complement of a level.

    Raises
    ------
    ModelError
        If it is no number between 0 and 1.
    """
    if not (isinstance(alpha, Real) and 0 < float(alpha) < 1):
        raise ModelError(f"alpha is 1 minus the level, between 0 and 1; got {shown(alpha)}.")


def real_number(value: object, what: str) -> float:
    """A real number as a float; ``what`` begins the sentence that refuses anything else.

    Examples
    --------
    >>> real_number("x", "An odds ratio is a number")
    Traceback (most recent call last):
    dpcontingency.errors.ModelError: An odds ratio is a number; got 'x'.
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        raise ModelError(f"{what}; got {shown(value)}.")
    return float(value)


def shown(value: object, width: int = 80) -> str:
    """A value in a message, cut where it would fill the screen.

    Examples
    --------
    >>> shown("b"), shown("x" * 5000, 8)
    ("'b'", "'xxxxxxx...")
    """
    text = repr(value)
    return text if len(text) <= width else text[:width] + "..."


def listing(names: Iterable[str], most: int = 10) -> str:
    """Names in a sentence, and how many more there are.

    Examples
    --------
    >>> listing("abc"), listing("abcd", 2)
    ('a, b, c', 'a, b and 2 more')
    """
    known = list(names)
    more = f" and {len(known) - most:,} more" if len(known) > most else ""
    return ", ".join(known[:most]) + more


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a sentence: what is known, nearest spelling first when there is one."""
    known = list(known)
    listing = ", ".join(shown(k) for k in known[:20]) + (", ..." if len(known) > 20 else "")
    folded = {k.casefold(): k for k in reversed(known)}
    near = difflib.get_close_matches(name.casefold(), folded, n=1)
    if near:
        return f"did you mean {shown(folded[near[0]])}? Known: {listing}."
    return f"known: {listing}."
