"""Commands that labeldp finds by entry point."""
