"""Slow obvious twins: what the package computes, by another road and from raw numbers."""
