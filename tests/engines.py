"""Engines that the tests start themselves: a PostgreSQL server and a local Spark session.

A developer without them skips their tests; where CI is "true" their absence is a failure.
"""

import contextlib
import gc
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import ibis
import pytest


def absent(what):
    if os.environ.get("CI") == "true":
        pytest.fail(f"{what} is not installed, and CI must have it (see .ci/run)")
    pytest.skip(f"{what} is not installed")


# ------------------------------------------------------------------ PostgreSQL


def _postgres_programs():
    found = shutil.which("initdb")
    folders = [Path(found).resolve().parent] if found else []
    folders += map(Path, sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True))
    return next((f for f in folders if (f / "initdb").exists() and (f / "pg_ctl").exists()), None)


@contextlib.contextmanager
def postgres():
    """An Ibis connection to a server of its own, on a socket in a folder of its own.

    The server does not run as root, so root hands it to the user that Debian's package makes.
    """
    programs = _postgres_programs()
    if programs is None:
        absent("PostgreSQL's server (Debian: postgresql)")
    folder = Path(tempfile.mkdtemp(prefix="dpc-"))  # a socket's path must be short
    owner = []
    if os.geteuid() == 0:
        shutil.chown(folder, "postgres", "postgres")
        owner = ["runuser", "-u", "postgres", "--"]

    def run(program, *arguments):
        # To a file and not a pipe, which the server would keep open.
        with open(folder / "output", "ab") as output:
            command = [*owner, programs / program, "-D", folder / "data", *arguments]
            subprocess.run(command, check=True, stdout=output, stderr=output, cwd="/")

    try:
        run("initdb", "-A", "trust", "-U", "tester", "-E", "UTF8", "--locale=C", "--no-sync")
        run("pg_ctl", "-w", "-l", folder / "log", "-o", f"-F -k {folder} -h ''", "start")
        try:
            connection = ibis.postgres.connect(
                host=str(folder), user="tester", database="postgres", autocommit=True
            )
            yield connection
            connection.disconnect()
        finally:
            run("pg_ctl", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


# ------------------------------------------------------------------ Spark


def _java():
    """The version of the Java that Spark would start; None where there is none."""
    home = os.environ.get("JAVA_HOME")
    program = shutil.which("java", path=f"{home}/bin" if home else None)
    if program is None:
        return None
    told = subprocess.run([program, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(\d+)', told)
    return int(version[1]) if version else None


@contextlib.contextmanager
def spark():
    """An Ibis connection to a Spark session in this process, on one core."""
    if (version := _java()) is None:
        absent("Java (Debian: default-jre-headless)")
    if not 17 <= version <= 21:
        absent(f"A Java that Spark 4.0 runs on (17 to 21; found {version})")
    with tempfile.TemporaryDirectory(prefix="dpc-") as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of PySpark's own making
        from pyspark.sql import SparkSession

        os.environ["PYSPARK_PYTHON"] = sys.executable
        options = {
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.local.dir": folder,
            # Compiling a query takes far longer than a few hundred records do.
            "spark.sql.adaptive.enabled": "false",
            "spark.sql.codegen.factoryMode": "NO_CODEGEN",
            "spark.sql.codegen.wholeStage": "false",
            "spark.sql.shuffle.partitions": "1",
            "spark.sql.warehouse.dir": folder,
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
        }
        session = SparkSession.builder.master("local[1]").config(map=options).getOrCreate()
        session.sparkContext.setLogLevel("OFF")
        yield ibis.pyspark.connect(session)
        session.stop()
        gc.collect()  # PySpark leaves its sockets to the collector, which warns of each
