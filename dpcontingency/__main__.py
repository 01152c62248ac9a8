"""``python -m dpcontingency`` is the command ``dpcontingency``."""

from dpcontingency.cli import main

if __name__ == "__main__":
    main()
