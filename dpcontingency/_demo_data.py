"""Where the demonstration's public data lies: inside an installed wheel, or in the checkout."""

from importlib.resources import files
from pathlib import Path

DEMO_FILES = ("ucb_admissions_records.csv", "ucb_admissions_domain.yaml")


def demo_file(name: str) -> Path:
    """Return the path of one of the demonstration's data files.

    A wheel carries them in ``dpcontingency/data``; an editable install reads them where they are
    kept, in ``data/`` beside the package.

    Parameters
    ----------
    name : str
        One of ``DEMO_FILES``.

    Returns
    -------
    pathlib.Path
        An existing file.

    Raises
    ------
    ValueError
        If ``name`` is not one of ``DEMO_FILES``.
    FileNotFoundError
        If the installation is incomplete.

    Examples
    --------
    >>> demo_file("ucb_admissions_domain.yaml").read_text(encoding="utf-8").splitlines()[0]
    'factors:'
    """
    if name not in DEMO_FILES:
        raise ValueError(f"{name!r} is not a demonstration file: use one of {DEMO_FILES}")
    package = Path(str(files("dpcontingency")))
    for folder in (package / "data", package.parent / "data"):
        if (folder / name).is_file():
            return folder / name
    raise FileNotFoundError(f"{name} is missing from {package / 'data'}: install the package anew")
