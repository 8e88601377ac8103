"""Naive LAg and FLAg, the warning example, and the attack on them."""
