"""What is not private says so in one way, from one place."""

import ast
from pathlib import Path

import dpcontingency
from dpcontingency.privacy import stamp

PACKAGE = Path(dpcontingency.__file__).parent


def test_nothing_words_the_stamp_for_itself():
    found = set()
    for path in PACKAGE.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        described = {
            id(node.body[0].value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
            and isinstance(node.body[0], ast.Expr)
        }
        for node in ast.walk(tree):
            text = node.value if isinstance(node, ast.Constant) else None
            if isinstance(text, str) and id(node) not in described:
                said = " ".join(text.upper().split())
                if "NOT PUBLIC:" in said or stamp.NOT_PRIVATE in text:
                    found.add(path.relative_to(PACKAGE).as_posix())
    assert found == {"privacy/stamp.py"}
