"""`labeldp audit`: attempts to break the claim of a mechanism on made-up labels (safety §6)."""
