"""A release: its certificate, its files, and how they are written and read."""
