"""The directive ``command-line``: a section for each command, with the help that it prints."""

from docutils import nodes
from sphinx.util.docutils import SphinxDirective
from typer.main import get_command
from typer.testing import CliRunner

from dpcontingency.cli import app as application

PROGRAM = "dpcontingency"


def help_of(*command):
    """What ``dpcontingency <command> --help`` prints, 80 columns wide."""
    said = CliRunner().invoke(
        application, [*command, "--help"], prog_name=PROGRAM, env={"COLUMNS": "80"}
    )
    if said.exit_code:
        raise RuntimeError(f"{PROGRAM} {' '.join(command)} --help failed: {said.output}")
    return said.output.strip()


class CommandLine(SphinxDirective):
    def run(self):
        parts = [self.literal(help_of())]
        for name in get_command(application).commands:
            title = f"{PROGRAM} {name}"
            section = nodes.section(ids=[nodes.make_id(title)], names=[title])
            section += nodes.title("", "", nodes.literal("", title))
            section += self.literal(help_of(name))
            self.state.document.note_explicit_target(section)
            parts.append(section)
        return parts

    @staticmethod
    def literal(text):
        return nodes.literal_block(text, text, language="text")


def setup(app):
    app.add_directive("command-line", CommandLine)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
