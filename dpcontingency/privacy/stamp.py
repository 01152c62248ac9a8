"""How everything that protects nobody says so, wherever it is printed or written."""

from __future__ import annotations

NOT_PRIVATE = "NOT PRIVATE"
EXACT = f"{NOT_PRIVATE}: exact counts"
SIMULATED = f"{NOT_PRIVATE}: simulated"
OBSERVED = f"{NOT_PRIVATE}: levels read off the records"
