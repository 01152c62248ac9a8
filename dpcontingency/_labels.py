"""What a level may be called, and the text by which a value matches it or is printed."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TypeAlias

import numpy as np

Label: TypeAlias = str | int | float | bool


def label_text(label: object) -> str:
    """Return the text by which a level is matched: that of ``1``, of ``1.0`` and of ``"1"`` is "1".

    Text stays as it is: ``"1.0"`` is another level.

    Examples
    --------
    >>> label_text(1.0), label_text("1"), label_text(True), label_text(0.5)
    ('1', '1', 'True', '0.5')
    """
    if isinstance(label, float | np.floating) and float(label).is_integer():
        return str(int(label))
    if isinstance(label, np.floating):
        label = float(str(label))  # float32 writes 0.0001 in another way
    if isinstance(label, Decimal) and label.is_finite():  # SQL's 1.00 is the number 1
        whole = label == label.to_integral_value()
        return str(int(label)) if whole else format(label, "f").rstrip("0")
    return str(label)


# What a terminal obeys, what turns the direction of the text around it, line ends of any kind, and
# halves of surrogate pairs.
CONTROLS = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
_BUT_BREAKS = re.compile(rf"(?!\n){CONTROLS.pattern}")


def on_one_line(text: str) -> str:
    r"""Text with line breaks and other `CONTROLS` as escapes; other letters stay as they are.

    Examples
    --------
    >>> on_one_line("a\nb"), on_one_line("α β")
    ('a\\nb', 'α β')
    """
    return CONTROLS.sub(lambda found: repr(found[0])[1:-1], text)


def on_lines(text: str) -> str:
    r"""Lines that are meant as lines, each as `on_one_line` makes it.

    Examples
    --------
    >>> on_lines("a\x1b\nb")
    'a\\x1b\nb'
    """
    return _BUT_BREAKS.sub(lambda found: repr(found[0])[1:-1], text)


def json_on_lines(text: str) -> str:
    r"""JSON with its line breaks, and other `CONTROLS` as escapes of JSON: it reads back the same.

    Examples
    --------
    >>> json_on_lines('{"a": "\x9b"}')
    '{"a": "\\u009b"}'
    """
    return _BUT_BREAKS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
