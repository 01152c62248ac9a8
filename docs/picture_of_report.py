"""Make docs/_static/report.png, the picture in the README: the head of the demo's report.

Needs chromium on PATH. Run it when the report has changed: python docs/picture_of_report.py
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

PICTURE = Path(__file__).resolve().parent / "_static" / "report.png"
WIDTH, HEIGHT = 1000, 1000  # of the window, in CSS pixels
LARGEST = 200_000  # bytes


def main():
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        sys.exit("There is no chromium on PATH: install Debian's package chromium.")
    with tempfile.TemporaryDirectory() as folder:
        made, shot = Path(folder, "demo"), Path(folder, "shot.png")
        demo = [sys.executable, "-c", "from dpcontingency.cli import main; main()"]
        subprocess.run([*demo, "demo", "--output", made], check=True, stdout=subprocess.DEVNULL)
        subprocess.run(
            [
                browser,
                "--headless",
                "--no-sandbox",
                "--hide-scrollbars",
                "--force-color-profile=srgb",
                f"--user-data-dir={folder}/profile",
                f"--window-size={WIDTH},{HEIGHT}",
                f"--screenshot={shot}",
                (made / "report.html").as_uri(),
            ],
            check=True,
            capture_output=True,
        )
        with Image.open(shot) as image:
            # A page of text and flat colours: 64 of them are enough, and a third of the bytes.
            small = image.convert("RGB").quantize(64)
            small.save(PICTURE, optimize=True)
    size = PICTURE.stat().st_size
    print(f"{PICTURE}: {small.width} x {small.height}, {size:,} bytes")
    if size > LARGEST:
        sys.exit(f"That is more than {LARGEST:,} bytes: make the window smaller.")


if __name__ == "__main__":
    main()
