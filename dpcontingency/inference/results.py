"""Results of a fit, in statsmodels' names, with the parts of each standard error told apart."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pandas as pd

from dpcontingency import _writing
from dpcontingency._labels import on_one_line
from dpcontingency._language import phrase
from dpcontingency.errors import ModelError, check_alpha, shown
from dpcontingency.inference.cell_results import CellResults, cells_of
from dpcontingency.inference.comparison import compare, drop1, information_criteria
from dpcontingency.inference.fits import Fit, sampling_covariance, treatment_covariance
from dpcontingency.inference.odds import (
    Kind,
    Refitted,
    associated_pairs,
    depends_on,
    no_odds_ratios,
    odds_ratio_frame,
)
from dpcontingency.inference.prediction import (
    CellPrediction,
    FittedCells,
    What,
    cells_named,
    check_what,
    columns_of,
    predict_cells,
    predict_margin,
)
from dpcontingency.inference.printing import summary2_of, summary_of
from dpcontingency.inference.pvalues import (
    DEFAULT_BOOT,
    How,
    PValue,
    Random,
    Statistic,
    Tail,
    pair_tail,
)
from dpcontingency.inference.tables import GoodnessOfFit, ModelTable
from dpcontingency.release import files
from dpcontingency.release.shrinkage import james_stein_factor

__all__ = ["Fit", "LogLinearResults"]

Array = npt.NDArray[np.float64]


def _load(path: str | Path) -> LogLinearResults:
    """In the place of statsmodels' `load`, which unpickles, until models are there to be remade."""
    raise ModelError(
        "Results are read with their model: import dpcontingency as dpc, and call "
        f"dpc.LogLinearResults.load({str(path)!r})."
    )


def _way_to_gof() -> str:
    return phrase("gof(pvalue='bootstrap')", "dpcontingency fit with --pvalue bootstrap") + (
        " gives a calibrated one"
    )


class LogLinearResults(CellResults):
    """What `LogLinearModel.fit` returns.

    Standard errors, tests and intervals cover sampling and the noise of the release, under the
    normal approximation; ``aic`` and ``bic`` are those of the likelihood of the release.

    Attributes
    ----------
    params, bse, tvalues, pvalues : pandas.Series
        Coefficients, standard errors, z statistics and two-sided p-values, by column name. A
        coefficient whose maximum is at infinity is inf or -inf with no standard error, and one that
        the release leaves open is nan (see ``existence``).
    llf : float
        The log-likelihood (METHODS 2.2).
    converged : bool
        Whether the search ended at a maximum; ``reason`` says why not.
    existence : Existence
        Whether all parameters have finite estimates.
    """

    load: ClassVar[Callable[[str | Path], LogLinearResults]] = staticmethod(_load)

    # -- fit -----------------------------------------------------------------------------------

    @property
    def llf(self) -> float:
        """The log-likelihood of the release at the estimate, without penalty.

        Its maximum only where ``maximises_likelihood``.
        """
        return self._fit.llf

    @property
    def second_maximum(self) -> float | None:
        """How far below ``llf`` another maximum of the likelihood is, where one is within 0.1.

        The release then hardly says which of two descriptions of the counts is the better one.
        """
        return self._fit.second_maximum

    @property
    def nobs(self) -> int:
        """The number of possible cells, as in a GLM of the counts."""
        return int(self.model.n_cells)

    @property
    def n_total(self) -> float:
        """The number of records; the noisy total where it is not public."""
        release = self.model.release
        return float(release.n_total_estimate if release.totals is None else release.n_total)

    @property
    def generators(self) -> tuple[tuple[str, ...], ...]:
        """The maximal margins of the hierarchical part; `special_terms` come on top of it."""
        return tuple(self.model.generators)

    @property
    def special_terms(self) -> tuple[str, ...]:
        """The terms on top of those: products with ``score``, ``Diag`` or ``Symm``."""
        return tuple(self.model.special_terms)

    @property
    def generating_class(self) -> str:
        """The generating class in brackets, and the special terms."""
        return str(self.model.generating_class)

    @property
    def aic(self) -> float:
        """-2 llf + 2 parameters; only differences between fits of one release mean anything.

        The parameters are ``model.n_params``, whatever cells the fit sends to 0.
        """
        return information_criteria(self, self.model.n_params)["aic"]

    @property
    def bic(self) -> float:
        """-2 llf + log(n_total) parameters, the same as of ``aic``."""
        return information_criteria(self, self.model.n_params)["bic"]

    @property
    def deviance(self) -> float:
        """2 (log-likelihood of the saturated model - llf): G2 when there is no noise.

        Where ``llf`` is not the maximum it says how far off the fitted cells are, and is a
        likelihood-ratio statistic no more.
        """
        return max(0.0, 2 * float(self.model.saturated_loglike - self.llf))

    @cached_property
    def pearson_chi2(self) -> float:
        """The score statistic of METHODS 2.3: Pearson's X2 when there is no noise.

        With ``method="normal"`` the projected statistic of Kifer and Rogers 2017. With a penalty
        less what the model's own parameters would take up, as in Neyman's C(alpha) tests: the
        penalty holds them where the release does not.
        """
        cells, fitted = self.model.cells, self._fit.fitted
        whole = float(cells.score_statistic(fitted))
        if self.penalty is None:
            return whole
        return max(0.0, whole - float(cells.nested_score_statistic(fitted, self.model._design)))

    def gof(
        self, *, pvalue: PValue = "auto", n_boot: int = DEFAULT_BOOT, rng: Random = None
    ) -> GoodnessOfFit:
        """Likelihood-ratio and score tests of the model against the saturated one.

        Both account for sampling and noise. A model with no df to spare has nothing to test: nan.
        Nor is there a likelihood ratio of a fit that does not maximise the likelihood.

        Parameters
        ----------
        pvalue : {"auto", "asymptotic", "bootstrap"}
            The upper tail of chi-square on ``df_resid`` where that holds (`calibration`), else
            nan; chi-square everywhere; or a parametric bootstrap of table and noise.
        n_boot, rng
            Of the bootstrap, as in `independence_test`.

        Returns
        -------
        GoodnessOfFit
            A data frame of ``statistic``, ``df`` and ``pvalue``, with ``notes`` by test: why there
            is no p-value and how to get one, what is doubtful about it, or where it is from.
        """
        how = How(pvalue=pvalue, n_boot=n_boot, rng=rng).seeded()
        df, rows, notes = self.df_resid, {}, {}
        kinds: dict[str, tuple[Statistic, float]] = {
            "noise-aware LR": ("lr", self.deviance if self.maximises_likelihood else np.nan),
            "noise-aware score": ("score", self.pearson_chi2),
        }
        for name, (kind, value) in kinds.items():
            known, asked = df > 0 and not np.isnan(value), replace(how, statistic=kind)
            tail = pair_tail(self, None, value, df, asked, _way_to_gof()) if known else Tail()
            rows[name] = (value if df > 0 else np.nan, df, tail.pvalue)
            if said := tail.said(value, df):
                notes[name] = said
        columns = ["statistic", "df", "pvalue"]
        out = GoodnessOfFit(pd.DataFrame.from_dict(rows, orient="index", columns=columns))
        out.notes, out.n_boot = notes, how.replicates
        return out

    def compare(
        self,
        *others: LogLinearResults,
        pvalue: PValue = "auto",
        n_boot: int = DEFAULT_BOOT,
        rng: Random = None,
    ) -> ModelTable:
        """Compare with nested models of the same release; see `comparison.compare`."""
        return compare(self, *others, pvalue=pvalue, n_boot=n_boot, rng=rng)

    def drop1(
        self, *, pvalue: PValue = "auto", n_boot: int = DEFAULT_BOOT, rng: Random = None
    ) -> ModelTable:
        """Test each term that can be dropped; see `comparison.drop1`."""
        return drop1(self, pvalue=pvalue, n_boot=n_boot, rng=rng)

    # -- predictions and tables ----------------------------------------------------------------

    def get_prediction(
        self, what: What = "mean", given: Any = (), *, margin: Sequence[str] | None = None
    ) -> CellPrediction:
        """Fitted values of the cells with standard errors and intervals.

        Parameters
        ----------
        what : {"mean", "proportion", "conditional"}
            Cell means, cell proportions, or the probability of a cell among those that share its
            levels of the ``given`` factors.
        given : str or sequence of str
            The factors to condition on.
        margin : sequence of str, optional
            The factors whose cells are fitted, those of ``given`` among them; all by default.

        Returns
        -------
        CellPrediction
            ``predicted_mean``, ``se``, ``conf_int(alpha)`` and ``summary_frame(alpha)``, by cell,
            covering sampling and noise. A cell that goes to 0 with a parameter at infinity keeps
            its fitted value, with no interval and a reason.

        Notes
        -----
        The intervals are by the normal approximation, also where the noise makes the standard
        error of a logarithm wide; there they are rough. 95 % intervals of the means of the Czech
        autoworkers' cells, all two-way, cover .92 on average at mu = 0.1, and .84 in cells of 2 to
        4 records (400 releases).

        Examples
        --------
        >>> from dpcontingency import Domain, LogLinearModel, Release
        >>> domain = Domain({"A": ["a", "b"], "B": ["u", "v"]})
        >>> release = Release.from_noisy_table(
        ...     [[91.5, 38.0], [47.7, 55.2]], domain, sigma=5.0, n_total=232
        ... )
        >>> prediction = LogLinearModel(release, "[AB]").fit().get_prediction("conditional", "A")
        >>> prediction.summary_frame().iloc[:2, :4].round(3)
              mean  mean_se  mean_ci_lower  mean_ci_upper
        A B
        a u  0.707    0.049          0.603          0.794
          v  0.293    0.049          0.206          0.397
        """
        domain = self.model.release.domain
        if not isinstance(given, Iterable):
            raise ModelError(f"given is a factor, or a sequence of factors; got {shown(given)}.")
        names = (given,) if isinstance(given, str) else tuple(given)
        axes = tuple(domain.axis(name) for name in names)
        if margin is None:
            self.model.require_joint("get_prediction")
            return predict_cells(self._cells, self._index, what, names, axes)
        part = self._part((margin,) if isinstance(margin, str) else tuple(margin))
        check_what(what, names)
        if not set(names) <= set(part.names):
            raise ModelError("The factors to condition on are among those of the margin.")
        covariance = treatment_covariance(self.model, self._fit)
        index = cells_of(part)
        return predict_margin(self.model, self._fit, covariance, index, part.names, what, names)

    def predict(self, exog: Any = None, *, linear: bool = False) -> pd.Series:
        """Fitted cell means: of all cells, or of the cells that the rows of a frame name.

        Parameters
        ----------
        exog : DataFrame or mapping of columns, optional
            A column of levels for every factor.
        linear : bool
            Whether to give the logarithms of the means, -inf where a cell is impossible.
        """
        self.model.require_joint("predict")
        if exog is None:
            means = self.fittedvalues
        else:
            index = exog.index if isinstance(exog, pd.DataFrame) else None
            cells = cells_named(self.model.release.domain, exog)
            means = pd.Series(self._fit.fitted[cells], index=index)
        with np.errstate(divide="ignore"):
            return np.log(means) if linear else means

    def odds_ratios(
        self,
        row: str | None = None,
        column: str | None = None,
        kind: Kind = "conditional",
        *,
        alpha: float = 0.05,
        profile: bool = True,
    ) -> pd.DataFrame:
        """Odds ratios of each pair of factors that the model associates.

        Parameters
        ----------
        row, column : str, optional
            A pair of factors, or one of them; all pairs by default.
        kind : {"conditional", "local"}
            The first level with each other one, or neighbouring levels.
        alpha : float
            1 - the level of the intervals.
        profile : bool
            Whether to refit the model for the interval of a ratio at 0 or infinity, or whose
            standard error the noise makes wide, which can take seconds for each; without it the
            interval is 0 to infinity for the one, and nan for the other.

        Returns
        -------
        DataFrame
            A row for each pair of levels, at each combination of levels of the other factors on
            which the ratio depends: ``odds_ratio``, ``log_or``, ``se`` and ``se_sampling`` (of the
            logarithm; the latter is what it would be with no noise), ``lower`` and ``upper`` (of
            the ratio, covering sampling and noise), ``in_words`` and ``reason``. The interval is
            normal on the log scale, or the one of `coefficients` by the score where the noise's
            part of ``se`` is above 1/2. A ratio at 0 or infinity has no standard error; the other
            end of its interval is by profile likelihood, and is infinity or 0 itself where the
            noise excludes nothing or the fit is no maximum of the likelihood. A ratio that the
            data leave open is nan, with the interval 0 to infinity; of one that a structural zero
            is in the interval is nan too. ``reason`` says which it is.

        Raises
        ------
        ModelError
            If ``alpha`` or ``kind`` is none, a name is no factor or given twice, or the model has
            no association that involves it.

        Notes
        -----
        The delta method on the covariance of the coefficients (METHODS 2.6).

        Examples
        --------
        >>> from dpcontingency import Domain, LogLinearModel, Release
        >>> domain = Domain({"A": ["a", "b"], "B": ["u", "v"]})
        >>> release = Release.from_noisy_table(
        ...     [[91.5, 38.0], [47.7, 55.2]], domain, sigma=5.0, n_total=232
        ... )
        >>> ratio = LogLinearModel(release, "[AB]").fit().odds_ratios().iloc[0]
        >>> ratio["in_words"]
        'odds of A = a rather than b, for B = u relative to v'
        >>> ratio[["odds_ratio", "lower", "upper"]].astype(float).round(2).tolist()
        [2.8, 1.44, 5.43]
        """
        if kind not in ("conditional", "local"):
            raise ModelError(f"kind is 'conditional' or 'local'; got {kind!r}.")
        check_alpha(alpha)
        domain = self.model.release.domain
        associations = self.model.associations
        pairs = associated_pairs(domain.names, associations, row, column)

        def refitted(combination: Array, drift: float, se: float) -> tuple[float, float]:
            if not (profile and self.refit_method):
                return (-np.inf, np.inf) if drift else (np.nan, np.nan)
            method = "profile" if drift else self.refit_method
            held = self._held_combination(combination, alpha, method, drift, se)
            return held.lower, held.upper

        if not pairs:
            return no_odds_ratios()
        sampling = sampling_covariance(self.model, self._fit)
        if self.model.space.is_joint:
            return odds_ratio_frame(
                self._cells, domain, pairs, associations, kind, alpha, refitted, self._is_open,
                sampling,
            )  # fmt: skip
        both = treatment_covariance(self.model, self._fit), sampling
        return pd.concat([self._few_ratios(pair, kind, alpha, refitted, both) for pair in pairs])

    def _few_ratios(
        self, pair: tuple[str, str], kind: Kind, alpha: float, refitted: Refitted,
        covariances: tuple[Array, Array],
    ) -> pd.DataFrame:  # fmt: skip
        """The odds ratios of one pair from the factors that they depend on alone."""
        model, domain = self.model, self.model.release.domain
        involved = {*pair, *depends_on(domain.names, model.associations, pair)}
        names = tuple(filter(involved.__contains__, domain.names))
        covariance, sampling = covariances
        cells = FittedCells.around(model, self._fit, covariance, names)
        inside = columns_of(model._design, [domain.axis(name) for name in names])

        def whole(combination: Array) -> Array:
            out = np.zeros(model._design.n_columns)
            out[inside] = combination
            return out

        part = domain.project(names)
        return odds_ratio_frame(
            cells, part, [pair], (names,), kind, alpha,
            lambda combination, drift, se: refitted(whole(combination), drift, se),
            lambda combination: self._is_open(whole(combination)),
            sampling[np.ix_(inside, inside)],
        )  # fmt: skip

    def posterior_mean(self) -> Array:
        """The expected counts given the release, at the fit: shape ``domain.shape``.

        Never negative; adds up to the public totals. The best estimate of the counts when the
        model is near the truth, worse than the noisy table when it is not (METHODS 2.8). For
        reading and publishing, never the input of a test.
        """
        self.model.require_joint("posterior_mean")
        return self._fit.posterior_mean.reshape(self.model.release.domain.shape)

    def shrunken_table(self) -> Array:
        """James-Stein from the noisy table toward the fitted one: shape ``domain.shape``.

        Notes
        -----
        ``t + (1 - (k - 2) sigma^2 / |y - t|^2)_+ (y - t)``, t the fitted table and k = d - q the
        dimension of the noise less the number of parameters (METHODS 2.8); y itself for k <= 2.
        Adds up to the public totals; cells may be negative. It gains what the model is worth
        and, unlike `posterior_mean`, loses next to nothing where the model is wrong. For reading
        and publishing, never the input of a test.

        Raises
        ------
        ModelError
            If the cells' noise differs in variance, for which this estimate is not made.
        """
        self._check_cells()
        y, target, release = self.model.cells.noisy, self._fit.fitted, self.model.release
        noise = release.conditioned().noise
        variances = noise.variances[release.domain.possible()]
        if not np.allclose(variances, variances[0], rtol=1e-9, atol=0):
            raise ModelError(
                "shrunken_table needs noise of one variance in all cells, and this release has "
                f"{variances.min():.4g} to {variances.max():.4g}; use posterior_mean."
            )
        factor = james_stein_factor(
            float(((y - target) ** 2).sum()),
            noise.dimension - self.df_model,
            float(np.sqrt(variances[0])),
            positive_part=True,
        )
        return np.asarray(target + factor * (y - target)).reshape(release.domain.shape)

    # -- printing and files --------------------------------------------------------------------

    def summary(self, alpha: float = 0.05) -> Any:
        """The fit on a page, as a statsmodels Summary.

        The rows are those of `coefficients`. The column ``priv.`` is the share of the variance that
        is due to the noise; ``by``, where there is one, says which tests and intervals are by
        refits (score, or likelihood ratio LR) and not by the standard error.
        """
        check_alpha(alpha)
        return summary_of(self, alpha)

    def summary2(self, alpha: float = 0.05) -> Any:
        """The same page as a statsmodels `summary2.Summary`, whose tables are DataFrames."""
        check_alpha(alpha)
        return summary2_of(self, alpha)

    def remove_data(self) -> None:
        """Do nothing: results hold the public release, and never a confidential count."""

    def save(self, path: str | Path, remove_data: bool = False) -> None:
        """Write the results and their release to a JSON file; `load` is the way back.

        Parameters
        ----------
        path : str or Path
            The file.
        remove_data : bool
            As in statsmodels; there is nothing to remove (`remove_data`).

        Raises
        ------
        ReleaseError
            If the file cannot be written.
        """
        _writing.write_text(path, self.to_json())

    def to_json(self) -> str:
        """The text that `save` writes: results, release and checksum, as JSON.

        Examples
        --------
        >>> import json
        >>> from dpcontingency import Domain, LogLinearModel, Release
        >>> release = Release.exact([[3, 4], [5, 6]], Domain({"A": [0, 1], "B": [0, 1]}))
        >>> json.loads(LogLinearModel(release, "[A][B]").fit().to_json())["generators"]
        [['A'], ['B']]
        """
        return files.text_of(self.to_dict(), files.RESULTS)

    def to_dict(self) -> dict[str, Any]:
        """Results and release as plain data, as they stand in the file."""
        model = self.model
        content = {
            "release": model.release.to_dict(),
            "generators": [list(margin) for margin in model.generators],
            "coding": model.coding,
            "fit": self._fit.to_dict(),
        }
        if model.special_terms:
            content["special_terms"] = list(model.special_terms)
        if model.offset is not None:
            content["offset"] = model.offset.tolist()
        if model.source_factors != model.release.domain.names:
            content["source_factors"] = list(model.source_factors)
        return content

    def __repr__(self) -> str:
        state = "" if self.converged else ", NOT CONVERGED"
        return on_one_line(
            f"<LogLinearResults {self.generating_class}: LR against saturated "
            f"{self.deviance:.4g} on {self.df_resid} df{state}>"
        )

    # -- parts ---------------------------------------------------------------------------------
