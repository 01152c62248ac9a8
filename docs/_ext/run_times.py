"""Write how long each page with code ran, for the tests: build/docs/run_times.json."""

import json
from pathlib import Path

from myst_nb.sphinx_ import NbMetadataCollector


def write(app, error):
    if error is None:
        data = NbMetadataCollector.get_exec_data
        ran = {page: data(app.env, page) for page in sorted(app.env.found_docs)}
        times = {page: done["runtime"] for page, done in ran.items() if done and done["succeeded"]}
        Path(app.outdir, "run_times.json").write_text(json.dumps(times, indent=1), "utf-8")


def setup(app):
    app.connect("build-finished", write)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
