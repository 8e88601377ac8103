"""The published thing: its claim, its certificate, its files.

Other rooms import from this page alone.
"""
