"""Tools for those who work on this repository; nothing here is installed."""
