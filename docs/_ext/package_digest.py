"""A digest of the package and its data in Sphinx's environment.

Pages that run code are read, and so run, again when what they run has changed, and not otherwise:
`make docs` after `make docs` takes seconds, and the tests that look at the site build it again at
no cost.
"""

import hashlib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WATCHED = ("dpcontingency/**/*.py", "dpcontingency/**/*.j2", "dpcontingency/**/*.css", "data/*")


def digest() -> str:
    files = sorted(path for pattern in WATCHED for path in ROOT.glob(pattern) if path.is_file())
    whole = hashlib.sha256()
    for path in files:
        whole.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes() + b"\0")
    return whole.hexdigest()


def setup(app):
    app.add_config_value("package_digest", digest(), "env", types=[str])
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
