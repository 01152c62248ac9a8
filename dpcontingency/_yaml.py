"""Domain files: YAML that says no more than it shows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from dpcontingency import _writing
from dpcontingency._paths import path_of
from dpcontingency.errors import DomainError


def read(path: str | Path) -> Any:
    """The content of a YAML (or JSON) file.

    Raises
    ------
    DomainError
        If it cannot be read, or is no such file.
    """
    try:
        text = path_of(path, DomainError).read_text(encoding="utf-8")
        return yaml.load(text, Loader=_PlainLoader)
    except OSError as error:
        fault = f"Cannot read the domain file {path}: {error.strerror}."
    except UnicodeDecodeError:
        fault = f"{path} is not UTF-8 text, so it is no domain file."
    except RecursionError:
        fault = f"{path} is nested too deeply, so it is no domain file."
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" (line {mark.line + 1}, column {mark.column + 1})" if mark else ""
        what = _FAULTS.get(type(error), "is not well-formed YAML")
        fault = f"{path} {what}{where}, so it is no domain file."
    # Outside the handlers: the first error quotes the file, which may be one of records.
    raise DomainError(fault)


def write(path: str | Path, content: dict[str, Any]) -> None:
    """Write plain data, so that `read` and any YAML 1.1 reader find the same.

    Raises
    ------
    DomainError
        If the file cannot be written.
    """
    whole = yaml.dump(content, Dumper=_PlainDumper, sort_keys=False, allow_unicode=True)
    _writing.write_text(path, whole, DomainError)


def text(content: dict[str, Any]) -> str:
    """Plain data as YAML that is pleasant to edit: lists that fit stand on a line.

    Examples
    --------
    >>> print(text({"Dose": ["low", "high", "no"], "n": [1, 2]}), end="")
    Dose: [low, high, 'no']
    n: [1, 2]
    """
    dumped: str = yaml.dump(
        content,
        Dumper=_PlainDumper,
        sort_keys=False,
        allow_unicode=True,
        default_flow_style=None,
        width=76,
    )
    return dumped


class _TwiceError(yaml.constructor.ConstructorError):
    """A key that is there twice."""


class _AliasError(yaml.constructor.ConstructorError):
    """A part that is repeated by its name, as ten nested ones repeat it a billion times."""


class _PlainLoader(yaml.SafeLoader):
    """YAML whose plain scalars are text unless they are a decimal number or true/false.

    YAML 1.1 reads ``no`` as false and ``1:30`` as ninety, which would rename levels.
    """

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise _AliasError(problem_mark=self.peek_event().start_mark)  # type: ignore[no-untyped-call]
        return super().compose_node(parent, index)

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:  # PyYAML would keep the last in silence
                    raise _TwiceError(problem_mark=key.start_mark)
                seen.add(key.value)
        return super().construct_mapping(node, deep)


class _PlainDumper(yaml.SafeDumper):
    """YAML that quotes all text which a YAML 1.1 reader or `_PlainLoader` would read otherwise."""

    def represent_str(self, data: str) -> yaml.ScalarNode:
        # Only in double quotes is every kind of line break escaped.
        style = None if data.isprintable() else '"'
        return self.represent_scalar("tag:yaml.org,2002:str", data, style=style)


_PlainDumper.add_representer(str, _PlainDumper.represent_str)


_INTEGER = re.compile(r"^-?(?:0|[1-9][0-9]{0,999})$")
_FLOAT = re.compile(r"^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?$")
_PlainLoader.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile(r"^(?:true|false|True|False)$"), list("tfTF")
)
_FAULTS: dict[type, str] = {
    _TwiceError: "has a key twice",
    _AliasError: "repeats a part by an alias, in the place of which the part is to be written,",
}
for _reader in (_PlainLoader, _PlainDumper):
    _reader.add_implicit_resolver("tag:yaml.org,2002:int", _INTEGER, list("-0123456789"))
    _reader.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, list("-0123456789"))
