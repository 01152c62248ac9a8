"""The coefficients of a fit: standard errors in parts, intervals, linear hypotheses."""

from __future__ import annotations

from functools import cached_property
from numbers import Integral
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats
from statsmodels.base.model import LikelihoodModelResults

from dpcontingency.errors import ModelError, check_alpha, shown
from dpcontingency.inference.constraints import restrictions, wald_terms
from dpcontingency.inference.existence import Existence
from dpcontingency.inference.fits import Fit
from dpcontingency.inference.held import HeldResults
from dpcontingency.inference.wide import affordable, is_wide

Array = npt.NDArray[np.float64]

_LIMITS = np.array([np.nan, np.inf, -np.inf])  # of a drift of 0, 1 and -1


class CoefficientResults(HeldResults):
    """What a fit says of its coefficients; `LogLinearResults` adds the model and its cells.

    Standard errors, tests and intervals cover sampling and the noise of the release.
    """

    def __init__(self, model: Any, fit: Fit) -> None:
        # Objects, because pandas' own type for text starts Arrow, which takes 6 MB.
        names = pd.Index(model.exog_names, dtype=object)
        lost = fit.at_infinity
        estimates = np.where(lost, _LIMITS[fit.direction.astype(int)], fit.params)
        covariance = np.where(lost[:, None] | lost[None, :], np.nan, fit.covariance)
        super().__init__(model, estimates, normalized_cov_params=covariance, scale=1.0)
        self.params = pd.Series(estimates, index=names)
        self.df_model = model.df_model
        self.df_resid = model.df_resid
        self.converged = fit.converged
        self.iterations = fit.iterations
        self.reason = fit.reason
        lost_names = np.array(names, dtype=object)[lost]
        self.existence = Existence(
            tuple(lost_names),
            fit.penalty is not None,
            tuple(lost_names[fit.direction[lost] == 0]),
        )
        self._names = names
        self._fit = fit
        self._held = {}

    # -- coefficients --------------------------------------------------------------------------

    @property
    def bse(self) -> pd.Series:
        """Standard errors, sampling and noise: the root of the inverse observed information.

        With ``method="normal"`` or a penalty, of the expected one (`LogLinearModel.fit`).
        """
        return self._series(np.sqrt(np.diag(self.normalized_cov_params)))

    @property
    def bse_sampling(self) -> pd.Series:
        """Standard errors the same fit would have with no noise: from the complete information."""
        return self._series(
            np.sqrt(np.where(self._fit.at_infinity, np.nan, self._fit.sampling_variance))
        )

    @property
    def bse_privacy(self) -> pd.Series:
        """What the noise adds: bse^2 = bse_sampling^2 + bse_privacy^2."""
        return self._series(np.sqrt(np.maximum(self.bse**2 - self.bse_sampling**2, 0.0)))

    @property
    def privacy_share(self) -> pd.Series:
        """The part of each variance that is due to the noise."""
        return self.bse_privacy**2 / self.bse**2

    @property
    def tvalues(self) -> pd.Series:
        """Coefficients over their standard errors."""
        return self.params.where(~self._fit.at_infinity) / self.bse

    @property
    def pvalues(self) -> pd.Series:
        """Two-sided p-values of the z statistics, by the normal upper tail."""
        return self._series(2 * stats.norm.sf(np.abs(self.tvalues)))

    def conf_int(
        self,
        alpha: float = 0.05,
        cols: Any = None,
        *,
        method: Literal["wald", "score", "profile"] = "wald",
    ) -> pd.DataFrame:
        """Intervals of level 1 - alpha for the coefficients, covering sampling and noise.

        Parameters
        ----------
        alpha : float
            1 - the level.
        cols : sequence of int or str, optional
            Which coefficients, by position or name; all by default.
        method : {"wald", "score", "profile"}
            ``"wald"``: the normal approximation, good while standard errors on the log scale are
            below 1/2. ``"score"``: the values that a score test with the expected information
            does not reject, all other coefficients fitted anew; to be preferred where noise
            dominates. ``"profile"``: the values that the likelihood, maximised over all other
            coefficients, does not put further than half a chi-square quantile below its maximum
            (METHODS 2.6). The last two refit the model about ten times a coefficient and give an
            estimate at infinity its one finite end. With a penalty only ``"wald"`` and
            ``"profile"``, of the penalised likelihood (Heinze and Schemper 2002).

        Returns
        -------
        DataFrame
            Columns 0 and 1, the ends. A coefficient at infinity, or that the release leaves open,
            has no Wald interval that excludes anything: -inf to inf.

        Raises
        ------
        ModelError
            If ``alpha``, a coefficient or the method is none; if another method than ``"wald"``
            is asked of a fit by ``method="normal"``, a profile of a penalised one that leaves a
            parameter open, or a score test of a penalised one.

        Notes
        -----
        Score test at a value: s' I^-1 s on one df, with the score s of the log-likelihood at the
        fit that holds the coefficient there and I the expected information of the release
        (METHODS 2.3), Rao's statistic when there is no noise. Measured coverage of 95 % intervals
        (Czech autoworkers, all two-way, mu = 0.1): `benchmarks/validity.py`.
        """
        if method not in ("wald", "score", "profile"):
            raise ModelError(
                f"The method of an interval is 'wald', 'score' or 'profile'; got {shown(method)}."
            )
        check_alpha(alpha)
        chosen = np.arange(len(self._names)) if cols is None else self._positions(cols)
        if method != "wald":
            self._check_profile(method)
            rows = [self._held_at(int(j), alpha, method) for j in chosen]
            ends = np.array([[row.lower, row.upper] for row in rows])
            return pd.DataFrame(ends.reshape(-1, 2), index=self.params.index[chosen])
        half = stats.norm.isf(alpha / 2) * self.bse
        lower, upper = (
            (self.params + sign * half).mask(self._fit.at_infinity, sign * np.inf)
            for sign in (-1, 1)
        )
        return pd.DataFrame({0: lower, 1: upper}).iloc[chosen]

    def coefficients(
        self, alpha: float = 0.05, cols: Any = None, *, refit: bool | None = None
    ) -> pd.DataFrame:
        """The coefficients as `summary` prints them, each with the test and interval that hold.

        Parameters
        ----------
        alpha : float
            1 - the level of the intervals.
        cols : sequence of int or str, optional
            Which coefficients, by position or name; all by default.
        refit : bool, optional
            Whether to refit the model for the coefficients that need it. A coefficient takes 40 to
            100 fits; by default they are made where the number of these coefficients in the model
            times (400 + the number of cells) is at most 12,000, which is a matter of ten seconds.

        Returns
        -------
        DataFrame
            By coefficient ``estimate``, ``se_sampling``, ``se_privacy``, ``se``, ``z``,
            ``pvalue``, ``lower``, ``upper``, ``privacy_share`` and ``method``. That is ``"wald"``,
            the normal approximation, while the noise's part of the standard error is at most 1/2
            on the log scale. Else it is ``"score"``: ``z`` is the signed root of the score test
            that the coefficient is 0, all others fitted anew, and the interval that of
            ``conf_int(method="score")``; or ``"profile"``, the same from the likelihood, for
            estimates at infinity, fits with a penalty, and where the score test rejects the
            estimate itself. It is empty, and the others nan, where the model was not refitted; of
            a coefficient that is left open, too, but that its interval is -inf to inf. Where there
            is a p-value the interval holds 0 if and only if it is at least ``alpha``.

        Raises
        ------
        ModelError
            If ``alpha`` or a coefficient is none.

        Notes
        -----
        ``pvalues``, ``tvalues`` and ``conf_int()`` are those of the normal approximation
        everywhere, as in statsmodels. Measured coverage: `benchmarks/validity.py`.

        Examples
        --------
        >>> from dpcontingency import Domain, LogLinearModel, Release
        >>> domain = Domain({"A": ["a", "b"], "B": ["u", "v"]})
        >>> release = Release.from_noisy_table(
        ...     [[91.5, 38.0], [7.7, 55.2]], domain, sigma=9.0, n_total=192
        ... )
        >>> frame = LogLinearModel(release, "[AB]").fit().coefficients()
        >>> frame[["estimate", "z", "lower", "upper", "method"]].round(2)
                       estimate     z  lower  upper method
        A[T.b]            -2.52 -5.05   -inf  -1.13  score
        B[T.v]            -0.88 -2.81   -1.5  -0.27   wald
        A[T.b]:B[T.v]      2.90  4.35    1.3    inf  score
        """
        check_alpha(alpha)
        chosen = np.arange(len(self._names)) if cols is None else self._positions(cols)
        wide = self._wide
        if refit is None:
            refit = affordable(int(wide.sum()), self.model.space.size)
        tests = np.column_stack([self.tvalues, self.pvalues, self.conf_int(alpha)])
        methods = np.where(wide | self.params.isna(), "", "wald").astype(object)
        tests[wide] = np.nan
        tests[self.params.isna(), 2:] = -np.inf, np.inf  # of what is left open nothing is known
        for j in chosen[wide[chosen]] if refit and self.refit_method else ():
            infinite = self._fit.at_infinity[j]
            held = self._held_at(int(j), alpha, "profile" if infinite else self.refit_method)
            tests[j] = held.z, 2 * stats.norm.sf(abs(held.z)), held.lower, held.upper
            methods[j] = held.method
        frame = pd.DataFrame(
            {
                "estimate": self.params,
                "se_sampling": self.bse_sampling,
                "se_privacy": self.bse_privacy,
                "se": self.bse,
                **dict(zip(("z", "pvalue", "lower", "upper"), tests.T, strict=True)),
                "privacy_share": self.privacy_share,
                "method": methods,
            }
        )
        return frame.iloc[chosen]

    def cov_params(self, *args: Any, **kwargs: Any) -> Any:
        """The covariance of the coefficients, or of linear combinations as in statsmodels.

        There ``column`` and ``other`` take names as well as positions.
        """
        for key in {"column", "other"} & kwargs.keys():
            if kwargs[key] is not None:
                places = self._positions(kwargs[key])
                kwargs[key] = places if np.ndim(kwargs[key]) else int(places[0])
        if args or any(value is not None for value in kwargs.values()):
            return super().cov_params(*args, **kwargs)
        return pd.DataFrame(self.normalized_cov_params, index=self._names, columns=self._names)

    # -- linear hypotheses ---------------------------------------------------------------------

    def t_test(self, r_matrix: Any, **kwargs: Any) -> Any:
        """Test linear hypotheses one by one, as `LikelihoodModelResults.t_test`.

        A hypothesis in words uses the names in ``params`` as they stand: ``"A[T.b] = 0"``. By the
        normal approximation: where the noise makes a standard error wide see `coefficients`.
        """
        return self._on_arrays.t_test(self._restrictions(r_matrix), **kwargs)

    def wald_test(self, r_matrix: Any, **kwargs: Any) -> Any:
        """Joint Wald test of linear hypotheses, as `LikelihoodModelResults.wald_test`."""
        return self._on_arrays.wald_test(self._restrictions(r_matrix), **{"scalar": True, **kwargs})

    def f_test(self, r_matrix: Any, **kwargs: Any) -> Any:
        """The Wald test in its F form: chi-square over its df, with infinite denominator df.

        No scale is estimated, so the p-value is that of `wald_test`.
        """
        return self._on_arrays.f_test(self._restrictions(r_matrix), **kwargs)

    def wald_test_terms(
        self, skip_single: bool = False, combine_terms: Any = None, **kwargs: Any
    ) -> Any:
        """Wald chi-square test that each term of the model is 0, as a `WaldTestResults`.

        Parameters
        ----------
        skip_single : bool
            Whether to leave out terms of a single parameter.
        combine_terms : sequence of str, optional
            Factors; for each, a row that tests all terms it is in.

        Notes
        -----
        ``table`` has a row a term: statistic, pvalue and df_constraint. A term with a parameter
        at infinity has no Wald test: nan. Take care with treatment coding, where the test of a
        term inside a larger one depends on the reference level, and where the noise makes standard
        errors wide, which the likelihood ratios of `drop1` do not suffer from.
        """
        if any(value is not None for value in kwargs.values()):
            raise ModelError(
                f"wald_test_terms takes no {', '.join(kwargs)}; give further restrictions to "
                "wald_test."
            )
        columns = self.model._columns
        groups: dict[str, list[int]] = {}
        for j, column in enumerate(columns):
            groups.setdefault(column.term, []).append(j)
        if skip_single:
            groups = {name: places for name, places in groups.items() if len(places) > 1}
        combined = [combine_terms] if isinstance(combine_terms, str) else combine_terms
        for factor in combined or ():
            if not any(factor in column.factors for column in columns):
                raise ModelError(f"No term of the model holds {shown(factor)}, so none is tested.")
            groups[factor] = [j for j, column in enumerate(columns) if factor in column.factors]
        covariance: Array = np.asarray(self.normalized_cov_params)
        return wald_terms(groups, np.asarray(self.params, dtype=np.float64), covariance)

    def t_test_pairwise(self, *args: Any, **kwargs: Any) -> Any:
        """Not offered: see the message."""
        raise ModelError(
            "Pairwise comparison of levels is not offered for a table; use odds_ratios(kind="
            "'local'), or t_test with one row a comparison."
        )

    # -- parts ---------------------------------------------------------------------------------

    @property
    def _wide(self) -> npt.NDArray[np.bool_]:
        """The coefficients that refits say more of than a standard error does."""
        units = np.abs(self.model._units)
        wide = is_wide(self.bse.to_numpy() * units, self.bse_sampling.to_numpy() * units)
        return np.asarray(wide | np.isinf(self.params.to_numpy()))

    @cached_property
    def _on_arrays(self) -> LikelihoodModelResults:
        """The same estimates as arrays, on which statsmodels' tests of hypotheses work."""
        lost = self._fit.at_infinity  # `restrictions` lets no hypothesis touch these
        plain = LikelihoodModelResults(
            self.model,
            np.where(lost, 0.0, self.params),
            np.where(lost[:, None] | lost[None, :], 0.0, self.normalized_cov_params),
            scale=1.0,
        )
        plain.df_resid = self.df_resid
        # No scale is estimated: df of cells are no df of error. SciPy's F law takes no infinity.
        plain.df_resid_inference = 1e12
        return plain

    def _series(self, values: Any) -> pd.Series:
        return pd.Series(np.asarray(values), index=self._names)

    def _positions(self, which: Any) -> npt.NDArray[np.intp]:
        """The places of coefficients given by place, name or mask."""
        if np.asarray(which).dtype == np.bool_ and np.shape(which) == (len(self._names),):
            return np.flatnonzero(which)
        places, size = {name: j for j, name in enumerate(self._names)}, len(self._names)
        out = []
        for one in np.atleast_1d(np.asarray(which, dtype=object)).ravel():
            if isinstance(one, str) and one in places:
                out.append(places[one])
            elif isinstance(one, Integral) and -size <= int(one) < size:
                out.append(int(one) % size)
            else:
                raise ModelError(
                    f"A coefficient is given by its name in params or its place, 0 to {size - 1}; "
                    f"got {shown(one)}."
                )
        return np.array(out, dtype=np.intp)

    def _restrictions(self, hypothesis: Any) -> tuple[Array, Array]:
        return restrictions(hypothesis, self._names, self._fit.at_infinity)
