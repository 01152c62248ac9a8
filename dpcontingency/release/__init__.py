"""From confidential counts to a public release."""
