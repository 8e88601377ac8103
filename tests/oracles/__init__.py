"""Slow obvious twins: what the package computes, in another way and from raw numbers."""
