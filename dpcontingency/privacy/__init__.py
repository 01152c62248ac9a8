"""Privacy accounting: what a loss means, and what has been spent."""
