"""One message for two callers: Python's arguments, or a command's options."""

import pytest

from dpcontingency import _commands
from dpcontingency._language import argument, phrase, speaking


def test_python_is_spoken_unless_a_command_runs():
    assert argument("rng") == "`rng`"
    assert argument("missing", "drop") == "missing='drop'"
    assert argument("given", ...) == "given=..."
    with speaking({"rng": "--seed", "missing": "--missing"}):
        assert argument("rng") == "--seed"
        assert argument("missing", "drop it") == "--missing 'drop it'"
        assert argument("rng", ...) == "--seed"
        assert argument("unknown") == "unknown"
        assert phrase("f(x)", "--f") == "--f"
    assert phrase("f(x)", "--f") == "f(x)"


def test_an_error_ends_the_language_too():
    with pytest.raises(ValueError, match="--seed"), speaking({"rng": "--seed"}):
        raise ValueError(argument("rng"))
    assert argument("rng") == "`rng`"


@pytest.mark.parametrize("name", _commands.SUMMARIES)
def test_renamed_arguments_are_options_of_their_command(name):
    command = _commands.load(name)
    known = {parameter.name for parameter in command.params}
    assert set(command.arguments.values()) <= known
