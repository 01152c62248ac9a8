"""Make ucb_admissions_records.csv, one row per applicant, from the frequency form beside it.

Run ``python data/make_records.py`` to write the file anew; the standard library is enough.
"""

import csv
import io
import random
from pathlib import Path

HERE = Path(__file__).resolve().parent
FREQUENCIES = HERE / "ucb_admissions.csv"
RECORDS = HERE / "ucb_admissions_records.csv"
SEED = 1973  # the year of the admissions; any fixed number would do


def render_records(frequencies: str) -> str:
    """Expand a table in frequency form into records, in a fixed shuffled order.

    Parameters
    ----------
    frequencies : str
        CSV text: a header, then one row per cell with the count in the last column.

    Returns
    -------
    str
        CSV text with the same columns but the count, and ``count`` rows for each cell.
    """
    header, *cells = csv.reader(io.StringIO(frequencies))
    rows = [labels for *labels, count in cells for _ in range(int(count))]
    # For one seed Python promises the same random() in every version, but not the same shuffle():
    # so the rows are sorted by random keys.
    generator = random.Random(SEED)
    shuffled = [row for _, row in sorted((generator.random(), row) for row in rows)]
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([header[:-1], *shuffled])
    return out.getvalue()


if __name__ == "__main__":
    text = render_records(FREQUENCIES.read_text(encoding="utf-8"))
    RECORDS.write_text(text, encoding="utf-8", newline="\n")
