"""Log-linear models of a released table, with the noise of the release in the likelihood."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
from statsmodels.base.model import LikelihoodModel

from dpcontingency._labels import on_one_line
from dpcontingency._language import argument, phrase
from dpcontingency.domain import Domain
from dpcontingency.errors import (
    ConvergenceWarning,
    ExistenceWarning,
    ModelError,
    ReleaseError,
    shown,
)
from dpcontingency.inference.cells import (
    AnyRelease,
    likelihood_of,
    part_for,
    release_from_dict,
)
from dpcontingency.inference.existence import (
    complement,
    facial_set,
    independent_columns,
    null_directions,
    of_levels_in_use,
)
from dpcontingency.inference.families import in_a_row
from dpcontingency.inference.fits import Fit
from dpcontingency.inference.formula import (
    Generators,
    formula_text,
    generating_class,
    read_formula,
    read_special,
    show,
    subsets,
)
from dpcontingency.inference.maxima import Highest, highest
from dpcontingency.inference.newton import DesignPoint, Maximum, maximise
from dpcontingency.inference.normal import fit_by_chi_square
from dpcontingency.inference.outcome import fit_at
from dpcontingency.inference.parameters import extended_parameters, hierarchical_parameters
from dpcontingency.inference.penalty import PenalisedLikelihood
from dpcontingency.inference.results import LogLinearResults
from dpcontingency.inference.terms import SpecialTerm
from dpcontingency.release import files
from dpcontingency.release.exports import is_unicode
from dpcontingency.release.margins import MarginRelease
from dpcontingency.release.noise import stratum_labels
from dpcontingency.release.reading import read_back
from dpcontingency.release.release import Release

Array = npt.NDArray[np.float64]
Coding = Literal["treatment", "sum"]
Method = Literal["ml", "normal"]
Penalty = Literal["jeffreys"]
LeftOut = Literal["margin", "uniform"]

FIRST_CHOICES = {"method": "ml", "penalty": None, "second_maximum": None}  # of old files of results
START_ROUNDS = 12  # of the classical fit that a fit starts from; only a margin near 0 needs more
# At an interior maximum the open Newton step is quadratically small; along a direction in which
# the maximum is at infinity it stays near 1, because the rates there fall as exp(-step).
STEP_AT_INFINITY = 1e-2


class LogLinearModel(LikelihoodModel):
    """A hierarchical log-linear model of the counts behind a release.

    The counts are multinomial given a public total (product-multinomial given strata, Poisson
    where nothing is public) with log cell probabilities X b; the release adds noise of known law.
    The likelihood sums over the unseen counts.

    Parameters
    ----------
    release : Release or MarginRelease
        The noisy table, whose shrunken estimate is never used; or noisy margins, each generator
        inside one of them. Of these the domain may be of any size (see Notes). The model is fitted
        to the margin of the factors that it names.
    generators : str or iterable
        The generating class: ``"[Admit Dept][Gender Dept]"`` or
        ``[("Admit", "Dept"), ("Gender", "Dept")]``.
    coding : {"treatment", "sum"}
        What a coefficient compares: a level with the first one of its factor, or with the mean.
    special_terms : sequence of str
        Terms on top of the generating class: products with ``score(A)``, ``Diag(A, B)`` or
        ``Symm(A, B)``, such as ``["score(A):score(B)"]``; see `from_formula`. In treatment
        coding only.
    offset : array_like, shape ``release.domain.shape``, optional
        A known part of the log probabilities, up to a constant in each stratum: log p for a model
        of departures from given probabilities p. It is about every factor, so that none is left
        out.
    left_out : {"margin", "uniform"}
        What becomes of the factors that neither generators nor special terms name. They are summed
        over: the model is of the margin of the others, the strata among them. Or their levels are
        taken to be equally likely, and the model is fitted to the whole release.

    Attributes
    ----------
    release : Release or MarginRelease
        What the model is fitted to: the margin of the factors that it names, or the whole release.
    source : Release or MarginRelease
        The release that was given. Results read from a file know the fitted one alone.
    source_factors : tuple of str
        The factors of the release that was given, from a file too.

    Raises
    ------
    ModelError
        If a name is unknown, a factor lacks the scores or levels that a term needs, special terms
        are asked for in sum coding, the offset is not finite or has another shape, or ``left_out``
        is unknown.

    Notes
    -----
    With public totals there is no intercept, and terms inside the strata are fixed by design and
    have no parameter; the strata margin is added to the model where it is missing. Every factor
    is categorical whatever its labels look like, unless a term ``score(...)`` asks for numbers.

    Without noise, a factor that a model leaves out changes no coefficient. With noise it does if
    its levels are taken to be equally likely and are not: the likelihood then shares the noise out
    by a table that is wrong, and the coefficients of other factors are biased (METHODS 2.1). A
    model that names no factor at all, ``LogLinearModel(release, [])``, can only be that of equally
    likely cells (in each stratum), and is fitted to the whole release.

    A release of margins whose joint table has more than 10^7 cells is fitted exactly on a junction
    tree of the released margins, which has small cliques where these are decomposable, or nearly
    so. Where they are not, the model is fitted to the margins of its generators alone, and
    ``release`` is that part of the release: models to be compared are then fitted to one
    ``release.restrict(margins)``. A model whose own generators have no such tree is refused.

    References
    ----------
    METHODS 2.1 and 2.2 in the documentation; Louis 1982 for the information. Special terms:
    Agresti, *Categorical Data Analysis* (2013), sections 10.4 (scores) and 11.4 (square tables).

    Examples
    --------
    >>> from dpcontingency.domain import Domain
    >>> domain = Domain({"A": ["a", "b"], "B": ["u", "v", "w"]})
    >>> release = Release.from_noisy_table(
    ...     [[91.5, 38.0, 62.1], [47.7, 55.2, 80.3]], domain, sigma=5.0, n_total=375
    ... )
    >>> result = LogLinearModel(release, "[A][B]").fit()
    >>> result.params.round(2)
    A[T.b]   -0.06
    B[T.v]   -0.41
    B[T.w]    0.01
    dtype: float64
    """

    def __init__(
        self,
        release: AnyRelease,
        generators: str | Iterable[str | Sequence[str]],
        *,
        coding: Coding = "treatment",
        special_terms: Sequence[str] = (),
        offset: npt.ArrayLike | None = None,
        left_out: LeftOut = "margin",
    ) -> None:
        check_release(release)
        if left_out not in get_args(LeftOut):
            raise ModelError(
                f"{argument('left_out')} is 'margin', which sums over the factors that the model "
                f"does not name, or 'uniform', which takes their levels to be equally likely; got "
                f"{shown(left_out)}."
            )
        if coding not in ("treatment", "sum"):
            raise ModelError(f"The coding is 'treatment' or 'sum'; got {coding!r}.")
        self.coding = coding
        names = release.domain.names
        asked = generating_class(generators, names)
        self.generators: Generators = (
            generating_class([*asked, release.strata], names) if release.strata else asked
        )
        self.special = read_special(special_terms, names)
        if self.special and coding != "treatment":
            raise ModelError(
                f"{self.special[0].text} has no sum-to-zero coefficients, as no special term has. "
                "Use coding='treatment'."
            )
        involved = tuple(tuple(sorted(term.involved)) for term in self.special)
        self.source, self.source_factors = release, names
        parts = (*self.generators, *involved)
        used = set[str]().union(*parts)
        self.named = tuple(filter(used.__contains__, names))
        whole = left_out == "uniform" or offset is not None or not (asked or involved)
        whole = whole or self.named == names
        self.release = release = part_for(release, parts, None if whole else self.named)
        # Of either kind of release; first, because it refuses tables too large to write down.
        self.cells: Any = likelihood_of(release)
        self.space = self.cells.space_of(release.domain.shape)
        if self.special and not self.space.is_joint:
            raise ModelError(
                f"{self.special[0].text} is a function of joint cells, of which there are "
                f"{release.domain.size:,} here. Take fewer factors, by release.collapse(...)."
            )
        self.terms = self._free_terms()
        axes = [tuple(release.domain.axis(name) for name in term) for term in self.terms]
        strata = tuple(release.domain.axis(name) for name in release.strata)
        self._possible = self.space.possible(release.domain)
        self._strata = np.zeros(self.space.size, dtype=np.intp)
        if strata:
            self._strata = stratum_labels(release.domain.shape, strata)
        margins: Any = self.space.design(axes, strata)  # special terms need a joint table's
        if self.special:
            parameters = extended_parameters(
                margins, self.special, release.domain, self._possible, self.fixed_strata
            )
        else:
            parameters = hierarchical_parameters(
                margins, axes, coding, release.domain, self._possible, self.fixed_strata
            )
        self._design, self._recode = parameters.design, parameters.recode
        self._columns, self._units = parameters.columns, parameters.units
        self.aliased, self.idle = parameters.aliased, parameters.idle
        if offset is not None and not self.space.is_joint:
            raise ModelError(
                f"An offset has a number for each of the {release.domain.size:,} cells, which are "
                "too many here. Take fewer factors, by release.collapse(...)."
            )
        self.offset = _checked_offset(offset, release.domain)
        known = 0.0 if self.offset is None else self.offset.ravel()
        self._offset = np.where(self._possible, known, -np.inf)
        super().__init__(self.cells.noisy)
        self.data.xnames = [column.name for column in self._columns]

    @classmethod
    def from_formula(
        cls,
        formula: str,
        release: AnyRelease,
        *,
        coding: Coding = "treatment",
        left_out: LeftOut = "margin",
    ) -> LogLinearModel:
        """The model that a patsy right-hand side in the factors spans.

        Parameters
        ----------
        formula : str
            Such as ``"Admit*Dept + Gender*Dept"``. Only factor names (plain, in backticks or as
            ``Q("...")``), ``+ - * : / ** ( )`` and the terms below: a formula is data and nothing
            in it is run.
        release : Release or MarginRelease
            The noisy table, or margins.
        coding : {"treatment", "sum"}
            As for the class.
        left_out : {"margin", "uniform"}
            As for the class.

        Notes
        -----
        ``score(A)`` is the number that the domain gives each level of A: its ``scores``, or 1, 2,
        ... where it is ``ordered``. ``A + B + score(A):score(B)`` is linear-by-linear (uniform)
        association, ``A + B + A:score(B)`` row effects. For factors with the same levels,
        ``Diag(A, B)`` has a parameter for each level that both bear (``A + B + Diag(A, B)``:
        quasi-independence), ``Symm(A, B)`` one for each pair of levels in either order (alone:
        symmetry; ``A + B + Symm(A, B)``: quasi-symmetry). All stand in products with factors, as
        in ``C*Symm(A, B)``. Columns that others can stand for are set to 0 and listed in
        ``aliased``.

        Examples
        --------
        >>> from dpcontingency.domain import Domain
        >>> domain = Domain({"Dose": [0, 1, 2], "Cured": ["no", "yes"]}, ordered=["Dose", "Cured"])
        >>> release = Release.exact([[30, 10], [22, 18], [12, 28]], domain)
        >>> model = LogLinearModel.from_formula("Dose + Cured + score(Dose):score(Cured)", release)
        >>> result = model.fit()
        >>> result.generating_class, result.df_resid
        ('[Dose][Cured] + score(Dose):score(Cured)', 1)
        >>> float(result.params["score(Dose):score(Cured)"].round(3))
        0.975
        """
        check_release(release)
        margins, special = read_formula(formula, release.domain.names)
        texts = [term.formula for term in special]
        return cls(release, margins, coding=coding, special_terms=texts, left_out=left_out)

    def sibling(
        self, generators: Generators, special: Iterable[SpecialTerm] = ()
    ) -> LogLinearModel:
        """Another model of the same table, in the same coding, whatever factors it leaves out."""
        made = type(self)(
            self.release,
            generators,
            coding=self.coding,
            special_terms=[term.formula for term in special],
            offset=self.offset,
            left_out="uniform",
        )
        made.source, made.source_factors = self.source, self.source_factors
        return made

    # -- what the model is ---------------------------------------------------------------------

    def __repr__(self) -> str:
        return on_one_line(f"<LogLinearModel {self.generating_class} of {self.release!r}>")

    @property
    def generating_class(self) -> str:
        """The generating class in brackets, and the special terms."""
        return show(self.generators, self.special, self.release.domain.names)

    @property
    def special_terms(self) -> tuple[str, ...]:
        """The terms on top of the generating class, as a formula has them."""
        return tuple(term.formula for term in self.special)

    @property
    def formula(self) -> str:
        """A formula that `from_formula` makes this model of."""
        return formula_text(self.generators, self.special)

    @property
    def associations(self) -> Generators:
        """The sets of factors that a term has in common, generators and special terms alike."""
        names = self.release.domain.names
        special = [sorted(term.involved, key=names.index) for term in self.special]
        return generating_class([*self.generators, *special], names)

    @property
    def uniform_factors(self) -> tuple[str, ...]:
        """The factors of the table whose levels the model takes to be equally likely."""
        if self.offset is not None:
            return ()
        return tuple(name for name in self.release.domain.names if name not in self.named)

    @property
    def fitted_to(self) -> str:
        """Which table was fitted, in words; empty where it is the whole release."""
        factors = self.release.domain.names
        table = " x ".join(map(str, factors))
        if set(factors) != set(self.source_factors):
            table = f"margin {table}"
        elif not self.uniform_factors:
            return ""
        return table + self.uniformity

    @property
    def uniformity(self) -> str:
        """Which levels are equally likely, as a clause; empty where none are."""
        factors = self.uniform_factors
        return f", levels of {in_a_row(factors)} equally likely" if factors else ""

    @property
    def n_cells(self) -> int:
        """The number of possible cells."""
        return int(self._possible.sum()) if self.space.is_joint else self.space.n_cells

    @property
    def fixed_strata(self) -> npt.NDArray[np.intp] | None:
        """The stratum of each cell, flat, where totals are public; None where none is."""
        return None if self.release.totals is None else self._strata

    @cached_property
    def face(self) -> npt.NDArray[np.bool_]:
        """The cells that keep a positive mean at the maximum, flat.

        With counts that no noise hides the facial set (`existence.facial_set`); else every
        possible cell of the strata that hold records.
        """
        if not self.cells.is_exact:
            return self._alive
        return facial_set(self._design, self.cells.noisy, self._alive, self._strata)

    def rank(self, cells: npt.NDArray[np.bool_]) -> int:
        """The number of free parameters that some cells, a flat mask, tell apart."""
        if cells.all() or (cells == self._possible).all():
            return self._design.n_columns
        return int(independent_columns(self._design, cells, self.cells.strata).sum())

    @cached_property
    def df_model(self) -> int:
        """The number of free parameters on the cells that keep a positive mean (``face``)."""
        return self.rank(self.face)

    @property
    def df_resid(self) -> int:
        """Free cells minus free parameters: the df of a test against the saturated model."""
        return self.df_against()

    def df_against(self, larger: LogLinearModel | None = None) -> int:
        """The df of a test of this model against a larger one, by default the saturated one.

        Under this model a record can be in the cells of its own ``face`` only. What the larger
        model adds there is tested: the difference of the two ranks on this one face, whatever
        cells the larger model sends to 0 besides (METHODS 2.4).
        """
        face = self.face
        free = self.cells.free_dimension(face) if larger is None else larger.rank(face)
        return int(free) - self.df_model

    @cached_property
    def n_params(self) -> int:
        """The parameters that AIC and BIC count: those that the cells of levels in use tell apart.

        That is all of them, but for levels that nobody is known to have. The count does not look
        at the model's own face, which is smaller the larger the model is.
        """
        if not self.cells.is_exact:
            return self.rank(self._alive)
        counts = self.cells.noisy.reshape(self.release.domain.shape)
        return self.rank(self._alive & of_levels_in_use(counts).ravel())

    @cached_property
    def saturated_loglike(self) -> float:
        """The largest log-likelihood that any cell probabilities give this release."""
        return float(self.cells.saturated().loglik)

    # -- likelihood ----------------------------------------------------------------------------

    def loglike(self, params: npt.ArrayLike) -> float:
        """The log-likelihood of the release at these parameters (METHODS 2.2)."""
        return self._at(self._treatment(params)).value

    def score(self, params: npt.ArrayLike) -> Array:
        """The gradient of `loglike`."""
        gradient = self._at(self._treatment(params)).gradient
        if self._recode is None:
            return gradient
        return np.asarray(np.linalg.solve(self._recode.T, gradient))

    def hessian(self, params: npt.ArrayLike) -> Array:
        """The Hessian of `loglike`."""
        return -self._recoded_information(self._at(self._treatment(params)).observed())

    def information(self, params: npt.ArrayLike) -> Array:
        """The observed information, minus the Hessian."""
        return -self.hessian(params)

    def predict(self, params: npt.ArrayLike) -> Array:
        """The fitted cell means at these parameters, in C order.

        Raises
        ------
        ModelError
            If the joint table is too large to write down.
        """
        self.require_joint("predict")
        return np.asarray(self._at(self._treatment(params)).cells.fitted)

    def fit(
        self,
        *,
        method: Method = "ml",
        penalty: Penalty | None = None,
        start_params: npt.ArrayLike | None = None,
        warn_convergence: bool = True,
        **options: Any,
    ) -> LogLinearResults:
        """Fit the model.

        Parameters
        ----------
        method : {"ml", "normal"}
            Noise-aware maximum likelihood: Newton steps on the observed information from the
            fit that ignores the noise. Or minimum chi-square in the Gaussian approximation, with
            iterated weights: faster, and good where every fitted mean or noise variance is large
            (METHODS 2.3). Without noise both are the classical fit.
        penalty : {None, "jeffreys"}
            Whether to add half the log determinant of the information in the counts to the
            log-likelihood: estimates are then finite also where noise has eaten a margin, or a
            margin is zero, and shrunken a little everywhere. Only with ``method="ml"``. Of a
            level that noise has nearly eaten take the interval
            ``conf_int(method="profile")``: the estimate has a long lower tail.
        start_params : array_like, shape (q,), optional
            Where the search starts, in the model's coding. It needs none, and ends where it would
            have ended without unless the likelihood is higher there: where the noise leaves room
            for several maxima (METHODS 2.2) others are sought from many starts all the same.
        warn_convergence : bool
            Whether to warn of what the results also say in ``converged`` and ``existence``.
        **options
            ``disp`` is taken for the sake of statsmodels' users, and nothing printed; others are
            refused.

        Returns
        -------
        LogLinearResults
            Standard errors cover sampling and noise. They come from the observed information;
            with ``method="normal"`` or a penalty from X' V Sigma^- V X, what the release is
            expected to say of the parameters (positive definite at every estimate). ``llf`` is
            the log-likelihood of the release at the estimate, without the penalty.

        Raises
        ------
        ModelError
            If the method, the penalty or an option is unknown, they do not go together, or
            ``start_params`` are not one finite number a parameter.

        Warns
        -----
        ConvergenceWarning
            If the search ended short of a maximum, with the reason.
        ExistenceWarning
            If parameters have no finite estimate, naming them.

        References
        ----------
        Kifer and Rogers 2017 for minimum chi-square; Firth 1993 for the penalty.

        Examples
        --------
        >>> from dpcontingency.domain import Domain
        >>> domain = Domain({"A": ["a", "b"], "B": ["u", "v"]})
        >>> release = Release.from_noisy_table(
        ...     [[81.5, 58.2], [-12.0, -7.7]], domain, sigma=10.0, n_total=120
        ... )
        >>> model = LogLinearModel(release, "[A][B]")
        >>> model.fit(warn_convergence=False).params.round(2).to_dict()
        {'A[T.b]': -inf, 'B[T.v]': -0.4}
        >>> model.fit(penalty="jeffreys").conf_int(method="profile").round(1).loc["A[T.b]"].tolist()
        [-8.7, -2.0]
        """
        _check_options(options)
        if method not in ("ml", "normal"):
            raise ModelError(f"The method is 'ml' or 'normal'; got {method!r}.")
        if penalty not in (None, "jeffreys"):
            raise ModelError(f"The penalty is None or 'jeffreys'; got {penalty!r}.")
        if method == "normal" and penalty is not None:
            raise ModelError(
                f"A penalty is added to the likelihood, which {argument('method', 'normal')} does "
                f"not maximise; use {argument('method', 'ml')} with it."
            )
        if self.cells.of_margins and (method != "ml" or penalty is not None):
            raise ModelError(
                "A model of a margin release is fitted by the Gaussian likelihood of the released "
                "interactions: "
                + phrase("use fit() without options.", "leave out --method and --penalty.")
            )
        start = None if start_params is None else self._treatment(start_params)
        if start is not None and not np.isfinite(start).all():
            raise ModelError(
                "start_params are finite numbers, one a parameter: give a coefficient at infinity "
                "a large number, such as 10."
            )
        found = self._search(method, penalty, start)
        best = found.best
        results = LogLinearResults(self, fit_at(self, found, method, penalty))
        if warn_convergence and not best.converged:
            warnings.warn(
                f"The fit of {self.generating_class} did not converge: {best.reason}.",
                ConvergenceWarning,
                stacklevel=2,
            )
        if warn_convergence and not results.existence.exists:
            warnings.warn(results.existence.reason, ExistenceWarning, stacklevel=2)
        return results

    # -- parts ---------------------------------------------------------------------------------

    def require_joint(self, what: str) -> None:
        """Refuse what would write down a joint table that is too large.

        Raises
        ------
        ModelError
            If it is.
        """
        if not self.space.is_joint:
            raise ModelError(
                f"{what} is of all {self.n_cells:,} cells of the joint table, which are too many "
                "to write down: ask for a margin, by fitted_margin('A', 'B') or "
                "get_prediction(margin=['A', 'B'])."
            )

    def _free_terms(self) -> list[tuple[str, ...]]:
        """The terms with parameters: the intercept where nothing is public, none in the strata."""
        terms = subsets(self.generators, self.release.domain.names)
        if self.release.totals is None:
            return [(), *terms]
        return [term for term in terms if not set(term) <= set(self.release.strata)]

    def _at(self, beta: Array) -> DesignPoint:
        eta = self._design.dot(beta) + self._offset
        return DesignPoint(self._design, self.cells.at(eta), self.cells.strata)

    def _cells_at(self, beta: Array, face: npt.NDArray[np.bool_]) -> Any:
        """The likelihood of the cells at coefficients, those outside a face at 0."""
        eta = self._design.dot(beta) + self._offset
        return self.cells.at(np.where(face, eta, -np.inf))

    @cached_property
    def _alive(self) -> npt.NDArray[np.bool_]:
        """The possible cells of the strata that hold records."""
        totals = self.cells.totals
        return self._possible if totals is None else self._possible & (totals[self._strata] > 0)

    def _flat(self) -> Array:
        """Equal rates."""
        flat = np.zeros(self._design.n_columns)
        if self.release.totals is None:
            level = self.space.sums(self._offset)[0]
            flat[0] = np.log(max(float(self.release.n_total_estimate), 1.0)) - level
        return flat

    def _start(self) -> tuple[Array, DesignPoint]:
        """The classical fit and the likelihood there.

        It looks at the noisy cells through the model's margins alone. Those are unbiased, and
        mostly positive where cells are not. If noise has eaten a margin the fit runs off; then the
        expected counts under equal rates take the place of the noisy cells, which makes one step
        of EM.
        """
        start = self._classical(self.cells.noisy)
        open_step = np.abs(self._design.dot(start.last_step)).max(initial=0.0)
        stays = start.converged and open_step < STEP_AT_INFINITY
        equal = self._at(self._flat())
        if stays and (point := self._at(start.beta)).value >= equal.value:
            return start.beta, point
        beta = self.classical_fit(equal.cells.posterior_mean)
        return beta, self._at(beta)

    def classical_fit(self, counts: Array) -> Array:
        """Treatment-coded coefficients that some steps of the classical fit to counts reach.

        Fits start from there; `counts`, shape (p,), add up to the public totals.
        """
        return self._classical(counts).beta

    def _classical(self, counts: Array) -> Maximum[DesignPoint]:
        def at(beta: Array) -> DesignPoint:
            eta = self._design.dot(beta) + self._offset
            return DesignPoint(self._design, self.cells.as_counts(eta, counts), self.cells.strata)

        return maximise(at, self._flat(), START_ROUNDS)

    def _search(self, method: Method, penalty: Penalty | None, start: Array | None) -> Highest:
        """Where the method ends, as a point of the likelihood."""
        begin, *first = self._start() if start is None else (start,)
        if method == "normal":
            found = fit_by_chi_square(self.cells, self._design, self._offset, begin)
            return Highest(found.seen_as(found.beta, found.last_step, self._at(found.beta)))
        if penalty is None:
            # Taken out of the list, so that it is in memory no longer than the search needs it.
            return highest(
                self, maximise(lambda beta: first.pop() if first else self._at(beta), begin)
            )
        basis = complement(null_directions(self._design, self._alive, self.cells.strata))
        best = self._penalised(basis).maximum([begin, self._flat()])
        beta, step = basis @ best.beta, basis @ best.last_step
        return Highest(best.seen_as(beta, step, self._at(beta)))

    def _penalised(self, basis: Array) -> PenalisedLikelihood:
        """The likelihood with Jeffreys' penalty, in the coordinates of a basis."""
        strata = self.cells.strata
        axes = None if strata is None else self._design.strata
        return PenalisedLikelihood(
            lambda beta: self._at(beta).cells, self._design, axes, strata, basis
        )

    def recoded(self, beta: Array) -> Array:
        """Coefficients in the coding of the model, from treatment-coded ones."""
        return beta if self._recode is None else self._recode @ beta

    def _treatment(self, params: npt.ArrayLike) -> Array:
        """Treatment-coded coefficients from coefficients in the model's coding."""
        values = _numbers(params, "Parameters")
        size = self._design.n_columns
        if values.shape != (size,):
            raise ModelError(
                f"The model has {size} parameters; got an array of shape {values.shape}."
            )
        if self._recode is None:
            return values
        return np.asarray(np.linalg.solve(self._recode, values))

    def _recoded_information(self, information: Array) -> Array:
        if self._recode is None:
            return information
        half = np.linalg.solve(self._recode.T, information)
        return np.asarray(np.linalg.solve(self._recode.T, half.T).T)


def check_release(release: object) -> None:
    """Refuse what is no release, or has names that no table of results can hold.

    Raises
    ------
    ModelError
        If it is none, or a factor or level is no Unicode text.
    """
    if not isinstance(release, Release | MarginRelease):
        likelihood_of(release)  # which says what is wrong
    elif not is_unicode(release.domain):
        raise ModelError(
            "A factor or level is no Unicode text, which the names of coefficients and tests "
            "cannot hold: rename it in the domain."
        )


def _check_options(options: dict[str, Any]) -> None:
    """Refuse options of other fits in statsmodels; `disp` says nothing, as nothing is printed."""
    asked = [name for name, value in options.items() if name != "disp" and value is not None]
    if asked:
        raise ModelError(
            f"fit takes no {asked[0]}: it stops at the maximum by itself. Its options are method, "
            "penalty, start_params and warn_convergence."
        )


def _numbers(values: npt.ArrayLike, what: str) -> Array:
    try:
        return np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ModelError(f"{what} are numbers; got {shown(values)}.") from None


def _checked_offset(offset: npt.ArrayLike | None, domain: Domain) -> Array | None:
    """The offset, 0 in impossible cells whatever it is there: the log of an exposure of 0, say."""
    if offset is None:
        return None
    shape, values = domain.shape, _numbers(offset, "The values of the offset")
    if values.shape == shape:
        values = np.where(domain.possible(), values, 0.0)
    if values.shape != shape or not np.isfinite(values).all():
        raise ModelError(
            f"The offset is finite and of the shape {shape} of the table; got an array of shape "
            f"{values.shape}. A cell that cannot hold a record is a structural zero of the domain."
        )
    values.setflags(write=False)
    return values


def load_results(path: str | Path) -> LogLinearResults:
    """Read results that `LogLinearResults.save` wrote; no confidential data is needed or held.

    Raises
    ------
    ReleaseError
        If the file holds no results, is of another version, was changed, or contradicts itself.
    """
    content = files.read(path, files.RESULTS)
    if isinstance(content.get("fit"), dict):  # of a file from before there was a choice
        content = {**content, "fit": {**FIRST_CHOICES, **content["fit"]}}
    given = {"special_terms", "offset", "source_factors"} & content.keys()
    names = {"release", "generators", "coding", "fit"} | given
    return read_back("file of results", names, content, _read_results)


def _read_results(content: Mapping[str, Any]) -> LogLinearResults:
    """The results in content that has the right fields, but perhaps the wrong values."""
    release = release_from_dict(content["release"])
    model = LogLinearModel(
        release,
        content["generators"],
        coding=content["coding"],
        special_terms=content.get("special_terms", ()),
        offset=content.get("offset"),
        left_out="uniform",  # the file holds what was fitted, so that nothing is summed over
    )
    model.source_factors = _read_factors(content, model)
    fit = Fit.from_dict(content["fit"])
    if not fit.is_of(len(model.exog_names), model.space.size):
        raise ReleaseError("its fit is not one of its model")
    return LogLinearResults(model, fit)


def _read_factors(content: Mapping[str, Any], model: LogLinearModel) -> tuple[str, ...]:
    """The factors of the release that a model in a file was given, those of its own among them."""
    names = content.get("source_factors", model.source_factors)
    if not (all(isinstance(name, str) for name in names) and {*names} >= {*model.named}):
        raise ReleaseError("its factors are not those of its release")
    return tuple(names)


# The results module knows no model class, so the way back is given to it here.
LogLinearResults.load = staticmethod(load_results)
