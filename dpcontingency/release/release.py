"""A release: the public object on the far side of the wall, with the law of its noise."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from dpcontingency._labels import on_one_line
from dpcontingency.domain import Domain, listed, unlabelled_array, without_nan
from dpcontingency.errors import PrecisionWarning, ReleaseError, shown
from dpcontingency.privacy.gdp import GDP, ceil_digits, float_up
from dpcontingency.privacy.neighbours import in_words
from dpcontingency.privacy.stamp import EXACT, NOT_PRIVATE, OBSERVED, SIMULATED
from dpcontingency.release import exports, files, integers
from dpcontingency.release.contents import ReleaseContents
from dpcontingency.release.integers import IntegerTable
from dpcontingency.release.margins import MarginRelease
from dpcontingency.release.noise import GaussianNoise
from dpcontingency.release.plausible import check_cells, check_shares
from dpcontingency.release.sensitivity import Neighbours, public_totals_in_words

Array = npt.NDArray[np.float64]


class Release(ReleaseContents):
    """A noisy contingency table, the law of its noise, and the privacy it was bought with.

    Made by `release_table`, `load_release`, `Release.from_noisy_table`, `Release.exact` or
    `simulate_release`; everything in it is public.

    Attributes
    ----------
    domain : Domain
        Factors and levels.
    noisy : ndarray of float, shape ``domain.shape``
        Unbiased for the counts; negative cells are noise and stay. Inference uses this.
    noise : GaussianNoise or LaplaceNoise
        The law of ``noisy`` minus the counts.
    estimate : ndarray of float, shape ``domain.shape``
        The mechanism's estimate of the counts (shrunken, biased): for reading, not for tests.
    sigma : float
        The scale of the noise on one cell of the released table: the standard deviation of
        Gaussian noise, b of Laplace noise.
    privacy : GDP or None
        The loss, or None where it is not stated.
    neighbours : str or None
        What the loss protects: "replace-one" or "add-remove".
    strata : tuple of str
        Factors whose joint margin is public.
    totals : ndarray or None
        The public totals, one a stratum (a 0-d array when only n is public).
    mechanism : Mechanism or None
        What was done; None for a table that this package did not noise.
    origin : {"released", "third-party", "exact", "simulated"}
        Where the table comes from.
    provenance : dict
        How the table was made, in words and numbers; no clock, no machine.

    Examples
    --------
    >>> domain = Domain({"A": ["a", "b"], "B": ["u", "v", "w"]})
    >>> release = Release.from_noisy_table([[9.5, -1.2, 4], [3, 8, 2]], domain, sigma=2.0)
    >>> release
    <Release A: 2, B: 3; third-party table, privacy not stated; sigma = 2>
    >>> release.margin("A").noisy
    array([12.3, 13. ])
    """

    # -- other ways in -------------------------------------------------------------------------

    @classmethod
    def exact(cls, counts: npt.ArrayLike, domain: Domain) -> Release:
        """Counts as they are, with no noise: for teaching and for the classical limit.

        Not private, and says so. Every estimate, statistic, df and p-value computed from it is
        the classical one. Fractional counts (weighted tables) are accepted.

        Raises
        ------
        ReleaseError
            If the shape is not the domain's, a count is negative or not finite, an impossible
            cell is neither empty nor NaN, or the cells are proportions or percentages.
        """
        values = _as_cells(counts, domain)
        if values[~domain.possible()].any():
            raise ReleaseError(
                "There are counts in a cell that the domain declares a structural zero. Mend the "
                "counts, or declare the cell possible."
            )
        if (values < 0).any():
            raise ReleaseError(
                "Exact counts are at least 0, but some cell is negative. If the table is noisy, "
                "enter it by Release.from_noisy_table with its sigma."
            )
        check_shares(values[domain.possible()], exact=True)
        return cls(
            domain=domain,
            noisy=values,
            noise=GaussianNoise(np.zeros(domain.shape), ()),
            estimate=values,
            sigma=0.0,
            privacy=None,
            neighbours=None,
            strata=(),
            totals=_whole(values.sum()),
            mechanism=None,
            origin="exact",
            provenance={},
        )

    @classmethod
    def from_noisy_table(
        cls,
        values: npt.ArrayLike,
        domain: Domain,
        *,
        sigma: float | npt.ArrayLike,
        n_total: float | None = None,
        neighbours: str | None = None,
    ) -> Release:
        """A table to whose cells someone else added independent Gaussian noise.

        Parameters
        ----------
        values : array_like, shape ``domain.shape``
            The noisy cells as published: not clamped, not rounded to be non-negative, not
            shrunken.
        domain : Domain
            Factors and levels. Structural zeros are read as 0 whatever was published there.
        sigma : float or array_like
            Standard deviation of the noise, one number or one a cell.
        n_total : float, optional
            The number of records, if it is known from elsewhere; inference then conditions on it.
            It is refused where it is 5 standard deviations of the noise or more away from the sum
            of the cells.
        neighbours : {"replace-one", "add-remove"}, optional
            The neighbour relation of the publisher. With it the loss mu = sensitivity / sigma is
            recorded, rounded up (the smallest sigma where they differ): right for continuous
            Gaussian noise, rounded or not, but a discrete Gaussian loses more (1.0458 times as
            much at sigma = 1), so leave it out there. Without it the loss is not stated.

        Raises
        ------
        ReleaseError
            If a value is not finite, sigma is negative, the shape is not the domain's, or the
            cells are proportions or too far from their total.

        Warns
        -----
        PlausibilityWarning
            If the total is 4 standard deviations of the noise away, or the table looks clamped at
            0 or like percentages.
        """
        noisy = _as_cells(values, domain, impossible=True)
        try:
            sd = np.asarray(sigma, dtype=np.float64)
        except (TypeError, ValueError):
            raise ReleaseError(f"sigma is a number or one a cell; got {shown(sigma)}.") from None
        if n_total is not None and not (isinstance(n_total, Real) and 0 <= n_total < np.inf):
            raise ReleaseError(f"n_total is a number of records, at least 0; got {shown(n_total)}.")
        if sd.shape not in ((), domain.shape):
            raise ReleaseError(
                f"sigma must be one number or an array of the domain's shape {domain.shape}; "
                f"got shape {sd.shape}."
            )
        possible = domain.possible()
        sd = np.where(possible, sd, 0.0)
        if not (np.isfinite(sd).all() and (sd >= 0).all()):
            raise ReleaseError("sigma is a finite standard deviation, at least 0.")
        check_shares(noisy[possible], exact=not sd.any(), n_total=n_total)
        check_cells(noisy[possible], sd[possible])
        privacy = None
        if neighbours is not None:
            sensitivity = Fraction(Neighbours(domain, neighbours).l2_sensitivity)
            smallest = float(sd[possible].min())
            privacy = GDP(float_up(sensitivity / Fraction(smallest))) if smallest > 0 else None
        made = cls(
            domain=domain,
            noisy=noisy,
            noise=GaussianNoise(sd**2, None),
            estimate=noisy,
            sigma=float(sd.max()),
            privacy=privacy,
            neighbours=neighbours,
            strata=(),
            totals=None if n_total is None else _whole(n_total),
            mechanism=None,
            origin="third-party",
            provenance={"source": "noisy table made elsewhere"},
        )
        made.warn_of_totals()
        return made

    # -- what it says --------------------------------------------------------------------------

    @property
    def private(self) -> bool:
        """Whether the counts behind the table, and its levels, were protected at all."""
        noised = self.origin in ("released", "third-party") and not self.noise.is_exact
        return noised and self.domain.is_public

    @property
    def n_total(self) -> int | float:
        """The number of records, where it is public.

        Raises
        ------
        ReleaseError
            Where it is not; `n_total_estimate` is the noisy total.
        """
        if self.totals is None:
            raise ReleaseError(
                "The number of records of this release is not public. Use n_total_estimate, "
                "whose standard error is n_total_se."
            )
        total = self.totals.sum()
        return int(total) if float(total).is_integer() else float(total)

    @property
    def n_total_estimate(self) -> float:
        """The number of records, exact where it is public, else the sum of the noisy cells."""
        return float(self.noisy.sum()) if self.totals is None else float(self.n_total)

    @property
    def n_total_se(self) -> float:
        """The standard deviation of the noise in `n_total_estimate`; 0 where n is public."""
        return float(np.sqrt(self.noise.variances.sum())) if self.totals is None else 0.0

    @property
    def noise_sd(self) -> Array:
        """The standard deviation of the noise in each cell of ``noisy``."""
        return self.noise.sd()

    @property
    def noise_range(self) -> tuple[float, float]:
        """The smallest and the largest `noise_sd` of a possible cell."""
        spread = self.noise_sd[self.domain.possible()]
        return float(spread.min()), float(spread.max())

    def margin(self, *factors: str | Sequence[str]) -> Release:
        """The released margin over the named factors, in the order given (post-processing).

        Raises
        ------
        DomainError
            If a factor is unknown or named twice.
        ReleaseError
            If the law of the margin's noise has no simple form (see `GaussianNoise.margin`).
        """
        factors = listed(factors)
        domain = self.domain.project(factors)
        axes = tuple(self.domain.axis(name) for name in factors)
        strata = tuple(name for name in factors if name in self.strata)
        totals = self.totals
        if totals is not None:
            totals = _collapse(totals, tuple(self.strata.index(name) for name in strata))
        return replace(
            self,
            domain=domain,
            noisy=_collapse(self.noisy, axes),
            noise=self.noise.margin(axes),
            estimate=_collapse(self.estimate, axes),
            strata=strata,
            totals=totals,
        )

    @property
    def margins(self) -> tuple[tuple[str, ...], ...]:
        """The margins that were released together: the whole table, as of a `MarginRelease`."""
        return (self.domain.names,)

    def says_the_same_as(self, other: object) -> bool:
        """Whether another release has the same noisy cells with the same law."""
        return (
            isinstance(other, Release)
            and self.domain == other.domain
            and np.array_equal(self.noisy, other.noisy)
            and self.noise.to_dict() == other.noise.to_dict()
        )

    def conditioned(self) -> Release:
        """The same release given its public totals: what inference works on.

        A table with independent noise on every cell tells nothing more once the totals are
        known than its rank-deficient version (see `GaussianNoise.condition`).

        Raises
        ------
        ReleaseError
            If the noise is not Gaussian, which inference relies on.
        """
        law = self.noise.as_gaussian()
        if self.totals is None or law.strata is not None:
            return self
        axes = tuple(self.domain.axis(name) for name in self.strata)
        noisy, noise = law.condition(self.noisy, self.totals, axes)
        return replace(self, noisy=noisy, noise=noise)

    # -- as a table of rows, and as integers ---------------------------------------------------

    def to_frame(self) -> pd.DataFrame:
        """One row a cell: the factors, then ``noisy``, ``noise_sd`` and ``estimate``.

        A factor that has one of these three names keeps it: address the columns by position.
        """
        return exports.frame_of(self.domain, self._columns())

    def to_csv(self, path: str | Path, *, spreadsheet_safe: bool = True) -> None:
        """Write the columns of `to_frame` as CSV; the file appears whole or not at all.

        The text is UTF-8 with labels in quotes; numbers read back to the same bits. `save` keeps
        what a table of rows cannot: the law of the noise, the loss, what is public. A release that
        is not private has one more column, named ``NOT PRIVATE``, that says why in every row.

        Parameters
        ----------
        path : str or Path
            The file.
        spreadsheet_safe : bool, optional
            Whether to write an apostrophe before a factor or level that a spreadsheet would run as
            a formula: text that begins with =, +, -, @ or white space other than a space, unless
            it is a number. False leaves all labels as they are.

        Raises
        ------
        ReleaseError
            If the file cannot be written, or a label is no Unicode text.
        """
        exports.write_csv(
            path,
            self.domain,
            self._columns(),
            self.statement(),
            spreadsheet_safe=spreadsheet_safe,
        )

    def to_parquet(self, path: str | Path) -> None:
        """Write the columns of `to_frame` as Parquet; the file appears whole or not at all.

        The metadata of the file has `statement` as JSON, under the key ``dpcontingency``. Labels
        of a factor that mixes kinds, such as 1 and "x", are written as text.

        Raises
        ------
        ReleaseError
            If the file cannot be written, a label is no Unicode text, or a factor has the name
            of another column.
        """
        exports.write_parquet(path, self.domain, self._columns(), self.statement())

    def to_integer_table(self) -> IntegerTable:
        """Non-negative integers that add up to the total, for printing; not for inference.

        ``estimate`` is projected on the tables with cells of at least 0, structural zeros of 0
        and the public totals of each stratum, by least squares, and rounded by largest remainders;
        of equal remainders the cell that comes first in C order takes the unit. Where nothing is
        public the total is the rounded sum of ``noisy``, or 0. All of it is post-processing.

        Returns
        -------
        IntegerTable
            With no noise law: small cells are pushed up and the total is met by force, so the
            numbers are biased. Tests and models take the release instead.

        Raises
        ------
        ReleaseError
            If a public total is no whole number, exceeds 2^53, or is of a stratum without a
            possible cell.

        Examples
        --------
        >>> domain = Domain({"A": ["a", "b"], "B": ["u", "v", "w"]})
        >>> release = Release.from_noisy_table([[9.5, -1.2, 4], [3, 8, 2]], domain, sigma=2.0)
        >>> release.to_integer_table().values
        array([[9, 0, 4],
               [3, 8, 1]])
        """
        possible = self.domain.possible()
        axes = tuple(self.domain.axis(name) for name in self.strata)
        whole: npt.NDArray[Any] = np.asarray(max(0.0, np.rint(self.n_total_estimate)))
        whole = whole if self.totals is None else self.totals
        if (np.rint(whole) != whole).any() or (whole > integers.MAX_TOTAL).any():
            raise ReleaseError(
                "Integer cells add up to a whole number of at most 2^53, which the total of this "
                "release is not. Use to_frame, whose columns are not rounded."
            )
        if whole[~_collapse(possible, axes).astype(bool)].any():
            raise ReleaseError(
                "A public total is positive where the domain declares every cell impossible, so no "
                "table adds up to it. Mend the total or the structural zeros."
            )
        values = integers.integer_cells(self.estimate, possible, whole.astype(np.int64), axes)
        facts = {**self.statement(), "Integers": integers.METHOD}
        return IntegerTable(self.domain, values, facts)

    def _columns(self) -> dict[str, Array]:
        return {"noisy": self.noisy, "noise_sd": self.noise_sd, "estimate": self.estimate}

    def statement(self) -> dict[str, str]:
        """What a reader must know of the protection, as short labelled sentences."""
        if self.noise.is_exact:
            return {"Privacy": f"{EXACT}, no noise"}
        loss = "not stated" if self.privacy is None else self.privacy.describe()
        low, high = self.noise_range
        sd = f"{low:.4g}" if np.isclose(low, high) else f"{low:.4g} to {high:.4g}"
        missing = self.provenance.get("missing")
        if self.origin == "simulated" and "samples" in self.provenance:
            loss = f"{NOT_PRIVATE}: not all samples are ({self.provenance['samples']})"
        elif self.origin == "simulated":
            loss = f"{SIMULATED}, at {loss}"
        elif not self.domain.is_public:
            loss = f"{OBSERVED}, outside the loss of {loss}"
        return {
            "Privacy": loss,
            "Neighbours": self._relation(),
            "Public": public_totals_in_words(self.strata if self.totals is not None else None),
            "Noise": f"{self.noise.name}, standard deviation of a cell {sd}",
            **({} if missing is None else {"Missing values": missing}),
        }

    def _relation(self) -> str:
        return "not stated" if self.neighbours is None else in_words(self.neighbours, self.strata)

    def __repr__(self) -> str:
        factors = repr(self.domain).removeprefix("Domain(").removesuffix(")")
        if self.noise.is_exact:
            return f"<Release {factors}; {EXACT}>"
        loss = (
            "privacy not stated"
            if self.privacy is None
            else f"mu = {ceil_digits(self.privacy.mu)} ({self._relation()})"
        )
        source = {
            "released": repr(self.mechanism),
            "third-party": "third-party table",
            "simulated": f"{SIMULATED}, {self.mechanism or 'combined samples'!r}",
        }[self.origin]
        return on_one_line(f"<Release {factors}; {source}, {loss}; sigma = {self.sigma:.4g}>")

    # -- files ---------------------------------------------------------------------------------

    def save(self, path: str | Path, *, key: files.Key | None = None) -> None:
        """Write the release to a JSON file; the file appears whole or not at all.

        Parameters
        ----------
        path : str or Path
            The file.
        key : bytes or str, optional
            A secret of at least 16 bytes that you share with the readers: the file is sealed with
            it (HMAC-SHA256), so that `load_release` with the same key tells that nobody without it
            wrote or changed the file. Without a key the file reads as any other.

        Raises
        ------
        ReleaseError
            If the file cannot be written, or the key is too short.
        """
        files.write(path, self.to_dict(), key=key)

    @property
    def checksum(self) -> str:
        """The checksum that the release's file carries."""
        return str(files.document_of(self.to_dict())["checksum"])


def load_release(path: str | Path, *, key: files.Key | None = None) -> Release | MarginRelease:
    """Read a release, of a table or of margins, from the JSON file of its `save`, bit for bit.

    Parameters
    ----------
    path : str or Path
        The file.
    key : bytes or str, optional
        The key that the file was saved with: what was not sealed with it is refused. Without a key
        the seal is not looked at.

    Raises
    ------
    ReleaseError
        If the file is no release, is of an unknown version, or was changed after it was written;
        or if there is a key, and the file is not sealed with it.
    """
    kind, content = files.read_one_of(path, (files.RELEASE, files.MARGINS), key=key)
    try:
        return (Release if kind == files.RELEASE else MarginRelease).from_dict(content)
    except ReleaseError as error:
        raise ReleaseError(f"{path}: {error}") from None


def _as_cells(values: npt.ArrayLike, domain: Domain, *, impossible: bool = False) -> Array:
    """A float64 copy of cell values, checked against the domain.

    An impossible cell that holds no number, or with ``impossible`` whatever it holds, is 0.
    """
    if not isinstance(domain, Domain):
        raise ReleaseError(f"The domain of a table is a Domain; got {type(domain).__name__}.")
    given = unlabelled_array(values)
    if given.ndim == 1 and len(domain.shape) > 1:
        raise ReleaseError(
            f"Expected a table of shape {domain.shape}; got a flat list of {given.size} numbers. "
            "Reshape it, last factor fastest."
        )
    if given.shape != domain.shape:
        raise ReleaseError(
            f"The table must have the domain's shape {domain.shape}; got {given.shape}. Axes are "
            f"{', '.join(domain.names)}, in this order."
        )
    if given.dtype.kind not in "iuf":
        raise ReleaseError(f"Cell values must be numbers; got an array of {given.dtype}.")
    possible = domain.possible()
    cells = without_nan(given.astype(np.float64), possible)
    if impossible:
        cells = np.where(possible, cells, 0.0)
    if not np.isfinite(cells).all():
        raise ReleaseError(
            "Some cell is NaN or infinite. Every declared cell needs a value: a cell nobody is in "
            "is 0, and an impossible one is declared in Domain(structural_zeros=...)."
        )
    if given.dtype == np.float32 and (np.abs(cells) >= 2**24).any():
        warnings.warn(
            "The table came as float32, which cannot hold whole numbers above 2^24: some cells "
            "may have lost digits before they arrived. Pass float64 or integers.",
            PrecisionWarning,
            stacklevel=3,
        )
    return cells


def _collapse(values: npt.NDArray[Any], axes: tuple[int, ...]) -> npt.NDArray[Any]:
    """Sum over the axes not named and put the others in the order given."""
    dropped = tuple(i for i in range(values.ndim) if i not in axes)
    kept = [i for i in range(values.ndim) if i in axes]
    return np.asarray(values.sum(axis=dropped)).transpose([kept.index(i) for i in axes])


def _whole(value: float) -> npt.NDArray[Any]:
    """A total as a 0-d array, of integers where it is whole."""
    whole = float(value).is_integer() and abs(value) < 2**63
    return np.asarray(int(value) if whole else float(value))
