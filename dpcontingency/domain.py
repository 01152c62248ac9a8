"""The public description of a contingency table: factors, ordered levels, impossible cells."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from dpcontingency import _yaml
from dpcontingency._arrays import unlabelled_array, without_nan
from dpcontingency._declared import checked_levels, checked_scores, with_bins
from dpcontingency._labels import Label, label_text, on_one_line
from dpcontingency._records import distinct_values
from dpcontingency._schema import declared_levels
from dpcontingency.bins import Bins
from dpcontingency.errors import DomainError, ObservedDomainWarning, did_you_mean, shown
from dpcontingency.privacy.stamp import OBSERVED

__all__ = ["Domain", "Label", "label_text", "unlabelled_array", "without_nan"]

MAX_MASK = 2**28  # bytes of a mask of impossible cells
MAX_SIZE = 4000  # digits of the number of cells; Python writes no number of more than 4,300
MAX_AXES = 64  # factors of a table that is written down, which NumPy has axes for


def listed(factors: Sequence[str | Sequence[str]]) -> tuple[str, ...]:
    """The factors of a margin, named one by one or in one sequence.

    Examples
    --------
    >>> listed(("A", "B")), listed((["A", "B"],))
    (('A', 'B'), ('A', 'B'))
    """
    if len(factors) == 1 and not isinstance(factors[0], str) and isinstance(factors[0], Iterable):
        return tuple(factors[0])
    return tuple(factors)  # type: ignore[arg-type]


class Domain:
    """Factors and their levels, declared in public and never learnt from records.

    Parameters
    ----------
    levels : mapping of str to sequence of labels
        For each factor its levels, in the order in which tables show them. Labels are text,
        integers, finite floats or booleans; two labels of a factor must differ as text.
    ordered : sequence of str, optional
        The factors whose level order carries meaning (ordinal factors).
    scores : mapping of str to sequence of float, optional
        Numeric scores of the levels of a factor, one a level; such a factor is ordinal too.
    structural_zeros : sequence of mappings, optional
        Impossible cells. Each mapping, factor to level, says that every cell with these levels
        is impossible by definition.
    bins : mapping of str to Bins, optional
        How numeric columns become factors. A factor that ``levels`` does not have comes after
        those that it has, with the labels of its bins for levels. One that it has takes its first
        levels for the bins, in their order; any further levels are matched by their text, for
        values that are missing or recoded. A factor without further levels is ordinal.

    Raises
    ------
    DomainError
        If a factor has no level or the same level twice, if it has more bins than levels, or if
        ``ordered``, ``scores`` or ``structural_zeros`` name a factor or level that is not
        declared.

    Notes
    -----
    A domain is immutable, hashable and equal by value, order of factors and levels included.

    Examples
    --------
    >>> domain = Domain({"Admit": ["Admitted", "Rejected"], "Dept": list("ABCDEF")})
    >>> domain
    Domain(Admit: 2, Dept: 6)
    >>> domain.shape, domain.size
    ((2, 6), 12)
    >>> domain.project(["Dept"])
    Domain(Dept: 6)
    >>> Domain({"sex": ["m", "f"]}, bins={"age": Bins([0, 18, 65, 120])}).levels["age"]
    ('[0, 18)', '[18, 65)', '[65, 120]')
    """

    __slots__ = (
        "_bins",
        "_index",
        "_is_public",
        "_key",
        "_levels",
        "_ordered",
        "_scores",
        "_structural_zeros",
    )

    _bins: Mapping[str, Bins]
    _index: Mapping[str, Mapping[str, int]]
    _is_public: bool
    _key: tuple[object, ...]
    _levels: Mapping[str, tuple[Label, ...]]
    _ordered: tuple[str, ...]
    _scores: Mapping[str, tuple[float, ...]]
    _structural_zeros: tuple[Mapping[str, Label], ...]

    def __init__(
        self,
        levels: Mapping[str, Sequence[Label]],
        *,
        ordered: Sequence[str] = (),
        scores: Mapping[str, Sequence[float]] | None = None,
        structural_zeros: Sequence[Mapping[str, Label]] = (),
        bins: Mapping[str, Bins] | None = None,
    ) -> None:
        levels, binned = with_bins(levels, bins)
        if not isinstance(levels, Mapping) or not levels:
            raise DomainError(
                "A domain needs at least one factor: pass a mapping of factor name to its levels, "
                'such as {"Gender": ["Male", "Female"]}.'
            )
        declared = {name: checked_levels(name, values) for name, values in levels.items()}
        if sum(math.log10(len(values)) for values in declared.values()) > MAX_SIZE:
            raise DomainError(
                f"These {len(declared):,} factors have more than 10^{MAX_SIZE:,} cells together: "
                "declare fewer of them."
            )
        put = object.__setattr__
        put(self, "_levels", MappingProxyType(declared))
        put(
            self,
            "_index",
            {name: {label_text(v): i for i, v in enumerate(vs)} for name, vs in declared.items()},
        )
        if scores is not None and not isinstance(scores, Mapping):
            raise DomainError("`scores` is a mapping of factor to the scores of its levels.")
        scored = {
            self._known(n): checked_scores(n, s, declared[n]) for n, s in (scores or {}).items()
        }
        if isinstance(ordered, str):
            raise DomainError(f"`ordered` is a sequence of factor names: write [{shown(ordered)}].")
        ordinal = {name for name, cut in binned.items() if len(cut) == len(declared[name])}
        asked = {self._known(name) for name in ordered} | set(scored) | ordinal
        put(self, "_bins", MappingProxyType(binned))
        put(self, "_is_public", True)
        put(self, "_scores", MappingProxyType(scored))
        put(self, "_ordered", tuple(name for name in declared if name in asked))
        put(self, "_structural_zeros", self._checked_zeros(structural_zeros))
        put(self, "_key", self._make_key())

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("A Domain is immutable: make a new one.")

    def __delattr__(self, name: str) -> None:
        raise AttributeError("A Domain is immutable: make a new one.")

    # -- what it holds -------------------------------------------------------------------------

    @property
    def names(self) -> tuple[str, ...]:
        """The factors, in axis order."""
        return tuple(self._levels)

    @property
    def levels(self) -> Mapping[str, tuple[Label, ...]]:
        """The levels of each factor, in order."""
        return self._levels

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of levels of each factor."""
        return tuple(len(values) for values in self._levels.values())

    @property
    def size(self) -> int:
        """The number of cells, structural zeros included, as an exact integer."""
        return math.prod(self.shape)

    @property
    def ordered(self) -> tuple[str, ...]:
        """The ordinal factors."""
        return self._ordered

    @property
    def scores(self) -> Mapping[str, tuple[float, ...]]:
        """The declared scores of the factors that have them."""
        return self._scores

    @property
    def structural_zeros(self) -> tuple[Mapping[str, Label], ...]:
        """The declared impossible partial cells."""
        return self._structural_zeros

    @property
    def bins(self) -> Mapping[str, Bins]:
        """The bins of the factors that are cut from numbers."""
        return self._bins

    @property
    def is_public(self) -> bool:
        """Whether the domain was declared; False where it was read off records."""
        return self._is_public

    def possible(self) -> npt.NDArray[np.bool_]:
        """Which cells are possible: a boolean array of shape ``shape``, new at each call.

        Raises
        ------
        DomainError
            If the joint table is too large to be written down.
        """
        if self.size > MAX_MASK or len(self.names) > MAX_AXES:
            raise DomainError(
                f"The joint table of these {len(self.names)} factors has {self.size:,} "
                f"cells, and at most {MAX_MASK:,} of {MAX_AXES} factors are written down. Take a "
                "margin, by project(...)."
            )
        mask = np.ones(self.shape, dtype=np.bool_)
        for zero in self._structural_zeros:
            mask[self._cells_of(zero, self.names)] = False
        return mask

    def axis(self, name: str) -> int:
        """Return the axis of a factor."""
        return self.names.index(self._known(name))

    def index(self, name: str, level: object) -> int:
        """Return the position of a level among the levels of a factor."""
        positions = self._index[self._known(name)]
        text = label_text(level)
        if text not in positions:
            raise DomainError(
                f"Factor {shown(name)} has no level {shown(text)}; {did_you_mean(text, positions)}"
            )
        return positions[text]

    def positions(self, name: str) -> Mapping[str, int]:
        """Return the position of each level of a factor, by the level's text."""
        return MappingProxyType(dict(self._index[self._known(name)]))

    def cells(self) -> Iterator[tuple[Label, ...]]:
        """Iterate over the cells as tuples of levels, last factor fastest."""
        return product(*self._levels.values())

    def project(self, names: Sequence[str]) -> Domain:
        """Return the domain of a margin: the named factors, in the order given.

        A margin cell is a structural zero when every cell it sums is one.
        """
        if isinstance(names, str):
            names = (names,)
        if not isinstance(names, Iterable):
            raise DomainError(f"A margin is a sequence of factors; got {shown(names)}.")
        kept = [self._known(name) for name in names]
        if not kept:
            raise DomainError("A margin names at least one factor; got none.")
        if len(set(kept)) < len(kept):
            raise DomainError(f"A margin names each factor once; got {', '.join(map(repr, kept))}.")
        margin = Domain(
            {name: self._levels[name] for name in kept},
            ordered=[name for name in self._ordered if name in kept],
            scores={name: s for name, s in self._scores.items() if name in kept},
            structural_zeros=self._projected_zeros(kept),
            bins={name: cut for name, cut in self._bins.items() if name in kept},
        )
        return margin if self._is_public else margin._stamped()

    # -- files ---------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and dictionaries, for YAML and JSON."""
        # The stamp stands first, so that no beginning of the file can be read without it.
        out: dict[str, Any] = {} if self._is_public else {"observed": True}
        out["factors"] = {n: list(v) for n, v in self._levels.items()}
        if self._ordered:
            out["ordered"] = list(self._ordered)
        if self._scores:
            out["scores"] = {n: list(s) for n, s in self._scores.items()}
        if self._structural_zeros:
            out["structural_zeros"] = [dict(z) for z in self._structural_zeros]
        if self._bins:
            out["bins"] = {n: self._bins[n].to_dict() for n in self.names if n in self._bins}
        return out

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Domain:
        """Make the domain that `to_dict` wrote."""
        if not isinstance(content, Mapping) or "factors" not in content:
            raise DomainError(
                "A domain file is a mapping with the key 'factors': factor name to its levels."
            )
        keys = ("factors", "ordered", "scores", "structural_zeros", "bins", "observed")
        for key in content:
            if key not in keys:
                raise DomainError(
                    f"A domain file has no key {shown(key)}; {did_you_mean(key, keys)}"
                )
        bins = content.get("bins") or {}
        if not isinstance(bins, Mapping):
            raise DomainError("`bins` is a mapping of factor to the edges of its bins.")
        observed = content.get("observed", False)
        if not isinstance(observed, bool):
            raise DomainError("`observed` is true in the file of a domain read off records.")
        domain = cls(
            content["factors"],
            ordered=content.get("ordered") or (),
            scores=content.get("scores") or {},
            structural_zeros=content.get("structural_zeros") or (),
            bins={name: Bins.from_dict(cut) for name, cut in bins.items()},
        )
        return domain._stamped() if observed else domain

    @classmethod
    def from_yaml(cls, path: str | Path) -> Domain:
        """Read a domain from a YAML (or JSON) file.

        Its keys are ``factors`` and, where needed, ``ordered``, ``scores``, ``structural_zeros``
        and ``bins`` (such as ``bins: {age: [0, 18, 65, 120]}``). Only integers, decimal numbers
        and ``true``/``false`` are not text: ``yes``, ``no``, ``NA`` and ``01`` are levels as typed.
        """
        return cls.from_dict(_yaml.read(path))

    def to_yaml(self, path: str | Path) -> None:
        """Write the domain to a YAML file."""
        _yaml.write(path, self.to_dict())

    # -- from what declares levels already, and from what does not ------------------------------

    @classmethod
    def from_schema(cls, source: object, *, public: bool = False) -> Domain:
        """Take a domain from something that declares its levels.

        Parameters
        ----------
        source : DataFrame, pyarrow Table, str or path
            A pandas DataFrame of categorical columns, or a table of Arrow dictionary columns (a
            pyarrow Table; a polars DataFrame of Enum columns): every column is a factor, and its
            categories are the levels, in their order, whether they occur or not. Or the path of a
            YAML or JSON file, as in `from_yaml`.
        public : bool, optional
            Your word that the categories were declared from public knowledge. A file needs none.

        Returns
        -------
        Domain
            With ``is_public`` False where categories come without ``public=True``: like those of
            `observed` they may be the values that occur.

        Raises
        ------
        DomainError
            If a column is of another type, polars Categorical included: levels are never collected
            from values.

        Warns
        -----
        ObservedDomainWarning
            If the domain is not public.

        Notes
        -----
        Only the categories are read, never the values. They must have been declared, as in
        ``pd.CategoricalDtype(["no", "yes"])``: ``astype("category")``, ``dictionary_encode()`` and
        ``pl.Enum(column.unique())`` collect those that occur, and leave a type that looks the same.

        Examples
        --------
        >>> import pandas as pd
        >>> dose = pd.Categorical(["low"], categories=["low", "mid", "high"], ordered=True)
        >>> domain = Domain.from_schema(pd.DataFrame({"dose": dose}), public=True)
        >>> domain.levels["dose"], domain.ordered
        (('low', 'mid', 'high'), ('dose',))
        """
        if isinstance(source, str | os.PathLike):
            return cls.from_yaml(os.fspath(source))
        levels, ordered = declared_levels(source)
        domain = cls(levels, ordered=ordered)
        if public is True:
            return domain
        warnings.warn(
            "Categories may be no more than the values that occur, as after astype('category'), "
            "dictionary_encode() or pl.Enum(column.unique()), so the domain is marked as not "
            "public. Pass public=True if they were declared from public knowledge.",
            ObservedDomainWarning,
            stacklevel=2,
        )
        return domain._stamped()

    @classmethod
    def observed(
        cls, records: object, factors: Sequence[str] | None = None, *, remote: bool = False
    ) -> Domain:
        """Read the levels off the records, which is NOT private.

        Which levels occur is a fact about the records that no noise protects: one record with a
        rare value adds a level. For looking at public data, and for tables that never leave. The
        domain, every table and release made from it, and the files that keep all of these (YAML,
        JSON, Parquet and CSV) say so for good.

        Parameters
        ----------
        records : DataFrame, pyarrow Table, Ibis table, str or path
            As in `tabulate`.
        factors : sequence of str, optional
            The columns to read; by default all.
        remote : bool, optional
            As in `tabulate`.

        Returns
        -------
        Domain
            Levels in increasing order, missing values left out, with ``is_public`` False.

        Raises
        ------
        RecordsError
            If the records cannot be read, or a column has more than a thousand values.
        DomainError
            If a column has no name, or values that are no levels.

        Warns
        -----
        ObservedDomainWarning
            Always.

        Examples
        --------
        >>> import pandas as pd, warnings
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")
        ...     domain = Domain.observed(pd.DataFrame({"a": ["y", "x", "y"]}))
        >>> domain
        Domain(a: 2; NOT PRIVATE: levels read off the records)
        """
        warnings.warn(
            "The levels are read off the records, which is not private: they show which values "
            "occur, however noisy the counts. Declare the domain from public knowledge to publish.",
            ObservedDomainWarning,
            stacklevel=2,
        )
        if isinstance(factors, str):
            raise DomainError(f"`factors` is a sequence of column names: write [{factors!r}].")
        return cls(distinct_values(records, factors, remote=remote))._stamped()

    def _stamped(self) -> Domain:
        """The same domain, marked as read off records."""
        stamped = object.__new__(Domain)
        for name in Domain.__slots__:
            object.__setattr__(stamped, name, getattr(self, name))
        object.__setattr__(stamped, "_is_public", False)
        object.__setattr__(stamped, "_key", stamped._make_key())
        return stamped

    # -- value ---------------------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        return self._key == other._key if isinstance(other, Domain) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        text = ", ".join(f"{name}: {len(values)}" for name, values in self._levels.items())
        impossible = len(self._structural_zeros)
        zeros = f"; {impossible} structural zero{'s' * (impossible > 1)}" if impossible else ""
        stamp = "" if self._is_public else f"; {OBSERVED}"
        return on_one_line(f"Domain({text}{zeros}{stamp})")

    def __reduce__(self) -> tuple[Any, tuple[dict[str, Any]]]:
        return Domain.from_dict, (self.to_dict(),)

    # -- checks --------------------------------------------------------------------------------

    def _known(self, name: str) -> str:
        if not isinstance(name, str) or name not in self._levels:
            raise DomainError(
                f"There is no factor {shown(name)}; {did_you_mean(str(name), self._levels)}"
            )
        return name

    def _checked_zeros(
        self, zeros: Sequence[Mapping[str, Label]]
    ) -> tuple[Mapping[str, Label], ...]:
        out = []
        for zero in zeros:
            if not isinstance(zero, Mapping) or not zero:
                raise DomainError(
                    "Each structural zero is a mapping of factor to level, such as "
                    f'{{"Sex": "male", "Pregnant": "yes"}}; got {shown(zero)}.'
                )
            cell = {n: self._levels[n][self.index(n, zero[n])] for n in self.names if n in zero}
            for name in zero:
                self._known(name)
            out.append(MappingProxyType(cell))
        return tuple(out)

    def _projected_zeros(self, kept: Sequence[str]) -> list[dict[str, Label]]:
        inside = [dict(z) for z in self._structural_zeros if set(z) <= set(kept)]
        if len(inside) == len(self._structural_zeros):
            return inside
        # A factor that no zero names makes no difference, and the joint may be too large to hold.
        named = [n for n in self.names if any(n in zero for zero in self._structural_zeros)]
        shape = [len(self._levels[n]) for n in named]
        if math.prod(shape) > MAX_MASK:
            raise DomainError(
                f"The structural zeros involve factors of {math.prod(shape):,} cells together, too "
                f"many to find the impossible cells of a margin (at most {MAX_MASK:,}). Declare "
                "zeros over fewer factors."
            )
        mask = np.ones(shape, dtype=np.bool_)
        for zero in self._structural_zeros:
            mask[self._cells_of(zero, named)] = False
        mask = np.asarray(mask.any(axis=tuple(i for i, n in enumerate(named) if n not in kept)))
        named = [n for n in named if n in kept]
        if not named:  # the zeros leave no cell at all, or one for every cell of the margin
            nothing = [{kept[0]: level} for level in self._levels[kept[0]]]
            return [] if mask.any() else nothing
        for zero in inside:
            mask[self._cells_of(zero, named)] = True
        for cell in np.argwhere(~mask):
            inside.append({n: self._levels[n][i] for n, i in zip(named, cell, strict=True)})
        return inside

    def _cells_of(self, zero: Mapping[str, Label], names: Sequence[str]) -> tuple[Any, ...]:
        """The index of a partial cell in a table of these factors."""
        return tuple(self.index(n, zero[n]) if n in zero else slice(None) for n in names)

    def _make_key(self) -> tuple[object, ...]:
        def key(label: Label) -> tuple[str, str]:
            return type(label).__name__, label_text(label)

        return (
            tuple((n, tuple(map(key, vs))) for n, vs in self._levels.items()),
            self._ordered,
            tuple((n, self._scores[n]) for n in self.names if n in self._scores),
            frozenset(frozenset((n, key(v)) for n, v in z.items()) for z in self._structural_zeros),
            frozenset(self._bins.items()),
            self._is_public,
        )
