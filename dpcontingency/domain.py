"""The public description of a contingency table: factors, ordered levels, impossible cells."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import product
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import yaml

from dpcontingency.errors import DomainError, did_you_mean

Label: TypeAlias = str | int | float | bool


def label_text(label: object) -> str:
    """Return the text by which a level is matched: ``1``, ``1.0`` and ``"1"`` are the same level.

    Examples
    --------
    >>> label_text(1.0), label_text("1"), label_text(True), label_text(0.5)
    ('1', '1', 'True', '0.5')
    """
    if isinstance(label, float | np.floating) and float(label).is_integer():
        return str(int(label))
    if isinstance(label, Decimal) and label.is_finite():  # SQL's 1.00 is the number 1
        whole = label == label.to_integral_value()
        return str(int(label)) if whole else format(label, "f").rstrip("0")
    return str(label)


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

    Raises
    ------
    DomainError
        If a factor has no level or the same level twice, or if ``ordered``, ``scores`` or
        ``structural_zeros`` name a factor or level that is not declared.

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
    """

    __slots__ = ("_index", "_key", "_levels", "_ordered", "_scores", "_structural_zeros")

    _index: Mapping[str, Mapping[str, int]]
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
    ) -> None:
        if not isinstance(levels, Mapping) or not levels:
            raise DomainError(
                "A domain needs at least one factor: pass a mapping of factor name to its levels, "
                'such as {"Gender": ["Male", "Female"]}.'
            )
        declared = {name: _checked_levels(name, values) for name, values in levels.items()}
        put = object.__setattr__
        put(self, "_levels", MappingProxyType(declared))
        put(
            self,
            "_index",
            {name: {label_text(v): i for i, v in enumerate(vs)} for name, vs in declared.items()},
        )
        if scores is not None and not isinstance(scores, Mapping):
            raise DomainError("`scores` is a mapping of factor to the scores of its levels.")
        scored = {self._known(n): self._checked_scores(n, s) for n, s in (scores or {}).items()}
        if isinstance(ordered, str):
            raise DomainError(f"`ordered` is a sequence of factor names: write [{ordered!r}].")
        asked = {self._known(name) for name in ordered} | set(scored)
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

    def possible(self) -> npt.NDArray[np.bool_]:
        """Which cells are possible: a boolean array of shape ``shape``, new at each call."""
        mask = np.ones(self.shape, dtype=np.bool_)
        for zero in self._structural_zeros:
            cell = tuple(
                self.index(name, zero[name]) if name in zero else slice(None) for name in self.names
            )
            mask[cell] = False
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
                f"Factor {name!r} has no level {text!r}; {did_you_mean(text, positions)}"
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
        kept = [self._known(name) for name in names]
        if len(set(kept)) < len(kept):
            raise DomainError(f"A margin names each factor once; got {', '.join(map(repr, kept))}.")
        return Domain(
            {name: self._levels[name] for name in kept},
            ordered=[name for name in self._ordered if name in kept],
            scores={name: s for name, s in self._scores.items() if name in kept},
            structural_zeros=self._projected_zeros(kept),
        )

    # -- files ---------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and dictionaries, for YAML and JSON."""
        out: dict[str, Any] = {"factors": {n: list(v) for n, v in self._levels.items()}}
        if self._ordered:
            out["ordered"] = list(self._ordered)
        if self._scores:
            out["scores"] = {n: list(s) for n, s in self._scores.items()}
        if self._structural_zeros:
            out["structural_zeros"] = [dict(z) for z in self._structural_zeros]
        return out

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Domain:
        """Make the domain that `to_dict` wrote."""
        if not isinstance(content, Mapping) or "factors" not in content:
            raise DomainError(
                "A domain file is a mapping with the key 'factors': factor name to its levels."
            )
        keys = ("factors", "ordered", "scores", "structural_zeros")
        for key in content:
            if key not in keys:
                raise DomainError(f"A domain file has no key {key!r}; {did_you_mean(key, keys)}")
        return cls(
            content["factors"],
            ordered=content.get("ordered") or (),
            scores=content.get("scores") or {},
            structural_zeros=content.get("structural_zeros") or (),
        )

    @classmethod
    def from_yaml(cls, path: str | Path) -> Domain:
        """Read a domain from a YAML (or JSON) file.

        Only integers, decimal numbers and ``true``/``false`` are not text: ``yes``, ``no``,
        ``NA`` and ``01`` are levels as typed.
        """
        try:
            content = yaml.load(Path(path).read_text(encoding="utf-8"), Loader=_PlainLoader)
        except OSError as error:
            raise DomainError(f"Cannot read the domain file {path}: {error.strerror}.") from None
        except UnicodeDecodeError:
            raise DomainError(f"{path} is not UTF-8 text, so it is no domain file.") from None
        except yaml.YAMLError as error:
            raise DomainError(f"{path} is not well-formed YAML: {error}") from error
        return cls.from_dict(content)

    def to_yaml(self, path: str | Path) -> None:
        """Write the domain to a YAML file."""
        text = yaml.dump(self.to_dict(), Dumper=_PlainDumper, sort_keys=False, allow_unicode=True)
        try:
            Path(path).write_text(text, encoding="utf-8")
        except OSError as error:
            raise DomainError(f"Cannot write the domain file {path}: {error.strerror}.") from None

    # -- value ---------------------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        return self._key == other._key if isinstance(other, Domain) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        text = ", ".join(f"{name}: {len(values)}" for name, values in self._levels.items())
        impossible = len(self._structural_zeros)
        zeros = f"; {impossible} structural zero{'s' * (impossible > 1)}" if impossible else ""
        return f"Domain({text}{zeros})"

    def __reduce__(self) -> tuple[Any, tuple[dict[str, Any]]]:
        return Domain.from_dict, (self.to_dict(),)

    # -- checks --------------------------------------------------------------------------------

    def _known(self, name: str) -> str:
        if not isinstance(name, str) or name not in self._levels:
            raise DomainError(
                f"There is no factor {name!r}; {did_you_mean(str(name), self._levels)}"
            )
        return name

    def _checked_scores(self, name: str, values: Sequence[float]) -> tuple[float, ...]:
        try:
            scores = tuple(float(v) for v in values)
        except (TypeError, ValueError):
            scores = ()
        if len(scores) != len(self._levels[name]) or not all(map(math.isfinite, scores)):
            raise DomainError(
                f"Factor {name!r} has {len(self._levels[name])} levels and needs as many scores, "
                f"each a finite number; got {values!r}."
            )
        return scores

    def _checked_zeros(
        self, zeros: Sequence[Mapping[str, Label]]
    ) -> tuple[Mapping[str, Label], ...]:
        out = []
        for zero in zeros:
            if not isinstance(zero, Mapping) or not zero:
                raise DomainError(
                    "Each structural zero is a mapping of factor to level, such as "
                    f'{{"Sex": "male", "Pregnant": "yes"}}; got {zero!r}.'
                )
            cell = {n: self._levels[n][self.index(n, zero[n])] for n in self.names if n in zero}
            for name in zero:
                self._known(name)
            out.append(MappingProxyType(cell))
        return tuple(out)

    def _projected_zeros(self, kept: Sequence[str]) -> list[dict[str, Label]]:
        if not self._structural_zeros:
            return []
        inside = [dict(z) for z in self._structural_zeros if set(z) <= set(kept)]
        dropped = tuple(i for i, name in enumerate(self.names) if name not in kept)
        mask = np.asarray(self.possible().any(axis=dropped))  # axes still in this domain's order
        for zero in inside:
            mask[tuple(self.index(n, zero[n]) if n in zero else slice(None)
                       for n in self.names if n in kept)] = True  # fmt: skip
        order = [name for name in self.names if name in kept]
        for cell in np.argwhere(~mask):
            inside.append({n: self._levels[n][i] for n, i in zip(order, cell, strict=True)})
        return inside

    def _make_key(self) -> tuple[object, ...]:
        def key(label: Label) -> tuple[str, str]:
            return type(label).__name__, label_text(label)

        return (
            tuple((n, tuple(map(key, vs))) for n, vs in self._levels.items()),
            self._ordered,
            tuple((n, self._scores[n]) for n in self.names if n in self._scores),
            frozenset(frozenset((n, key(v)) for n, v in z.items()) for z in self._structural_zeros),
        )


def unlabelled_array(values: Any) -> npt.NDArray[Any]:
    """Cell values as an array; labels and masks, which an array would drop, are refused.

    Raises
    ------
    DomainError
        If the values are a pandas object or a masked array.
    """
    if isinstance(values, np.ma.MaskedArray):
        raise DomainError(
            "The cells come as a masked array, whose mask would be lost. Fill it first, and "
            "declare impossible cells in Domain(structural_zeros=...)."
        )
    if hasattr(values, "iloc"):
        raise DomainError(
            "The cells come as a pandas object, whose labels would be ignored. Put rows and "
            "columns in the domain's order and pass .to_numpy()."
        )
    return np.asarray(values)


def _checked_levels(name: str, values: Sequence[Label]) -> tuple[Label, ...]:
    if not isinstance(name, str) or not name:
        raise DomainError(f"A factor name is non-empty text; got {name!r}.")
    ordered = isinstance(values, Sequence | np.ndarray) or hasattr(values, "to_list")
    if isinstance(values, str | bytes) or not ordered:
        raise DomainError(f"The levels of {name!r} are a sequence of labels; got {values!r}.")
    levels = tuple(v.item() if isinstance(v, np.generic) else v for v in values)
    if not levels:
        raise DomainError(f"Factor {name!r} has no level: declare at least one.")
    for level in levels:
        finite = not isinstance(level, float) or math.isfinite(level)
        if not isinstance(level, str | int | float | bool) or not finite:
            raise DomainError(
                f"A level is text, an integer, a finite number or a boolean; factor {name!r} has "
                f"{level!r}. To count missing values, declare a text level such as 'missing'."
            )
    texts = Counter(map(label_text, levels))
    twice = [text for text, times in texts.items() if times > 1]
    if twice:
        raise DomainError(f"Factor {name!r} has the level {twice[0]!r} twice: levels must differ.")
    return levels


class _PlainLoader(yaml.SafeLoader):
    """YAML whose plain scalars are text unless they are a decimal number or true/false.

    YAML 1.1 reads ``no`` as false and ``1:30`` as ninety, which would rename levels.
    """

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        for key in keys:
            if keys.count(key) > 1:  # PyYAML would keep the last in silence
                raise yaml.constructor.ConstructorError(None, None, f"{key!r} is there twice")
        return super().construct_mapping(node, deep)


class _PlainDumper(yaml.SafeDumper):
    """YAML that quotes all text which a YAML 1.1 reader or `_PlainLoader` would read otherwise."""

    def represent_str(self, data: str) -> yaml.ScalarNode:
        # Only in double quotes is every kind of line break escaped.
        style = None if data.isprintable() else '"'
        return self.represent_scalar("tag:yaml.org,2002:str", data, style=style)


_PlainDumper.add_representer(str, _PlainDumper.represent_str)


_INTEGER = re.compile(r"^-?(?:0|[1-9][0-9]*)$")
_FLOAT = re.compile(r"^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?$")
_PlainLoader.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile(r"^(?:true|false|True|False)$"), list("tfTF")
)
for _reader in (_PlainLoader, _PlainDumper):
    _reader.add_implicit_resolver("tag:yaml.org,2002:int", _INTEGER, list("-0123456789"))
    _reader.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, list("-0123456789"))
