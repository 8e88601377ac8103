"""The Gaussian mechanism, exactly: δ(ε; μ) = Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ) (theory 4).

μ is sensitivity over noise. `epsilon` and `mu` invert `delta` and err on the private side:
the δ of what they return, margin included, is at most the δ asked for.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import optimize, special

from labeldp.errors import at_least, in_range

_MARGIN = 1e-11  # relative; `delta` is good to 1e-12
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_HIGHEST = 1e6  # of ε and μ


def delta(epsilon: float, mu: float) -> float:
    """δ at any real ε; relative error below 1e-12 down to δ = 1e-300.

    With x = ε/μ − μ/2 and Mills' ratio R(x) = Φ(−x)/φ(x), δ = φ(x)(R(x) − R(x+μ)).
    For small μ the difference is the integral of −R' = 1 − sR(s), which does not cancel.
    """
    at_least(0.0, mu=mu)
    if epsilon < 0.0:  # exchange P and Q
        return -math.expm1(epsilon) + math.exp(epsilon) * delta(-epsilon, mu)
    if mu == 0.0 or epsilon / mu > 1e8:
        return 0.0
    x = epsilon / mu - 0.5 * mu
    if x < -1.0:
        return float(special.ndtr(-x) - np.exp(epsilon + special.log_ndtr(-x - mu)))
    gain = _mills(x) - _mills(x + mu) if mu > 0.5 else _mills_fall(x, mu)
    return float(np.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi) * gain)


def upper(epsilon: float, mu: float) -> float:
    """`delta` with its rounding error added: the number a claim may use."""
    value = delta(epsilon, mu)
    return min(1.0, max(value * (1.0 + _MARGIN), 1e-300)) if mu > 0.0 else value


def epsilon(delta: float, mu: float) -> float:
    """The smallest ε ≥ 0 with δ(ε; μ) ≤ `delta`; inf if it is absurdly large."""
    in_range(0.0, 1.0, delta=delta)
    at_least(0.0, mu=mu)
    if upper(0.0, mu) <= delta:
        return 0.0
    if upper(_HIGHEST, mu) > delta:
        return math.inf
    guess = optimize.brentq(lambda e: _gap(e, mu, delta), 0.0, _HIGHEST, xtol=1e-14, rtol=1e-14)
    while upper(guess, mu) > delta:
        guess += 1e-13 * (1.0 + guess)
    return float(guess)


def mu(epsilon: float, delta: float) -> float:
    """The largest μ with δ(ε; μ) ≤ `delta`."""
    in_range(0.0, 1.0, delta=delta)
    at_least(0.0, epsilon=epsilon)
    low, high = math.log(1e-12), math.log(_HIGHEST)
    log_mu = optimize.brentq(lambda s: _gap(epsilon, math.exp(s), delta), low, high, xtol=1e-14)
    guess = math.exp(log_mu)
    while upper(epsilon, guess) > delta:
        guess *= 1.0 - 1e-13
    return guess


def _gap(epsilon: float, mu: float, target: float) -> float:
    """log δ − log target, with δ below 1e-300 counted as that."""
    return math.log(max(delta(epsilon, mu), 1e-300)) - math.log(target)


def _mills(x: float) -> float:
    return math.sqrt(0.5 * math.pi) * float(special.erfcx(x / math.sqrt(2.0)))


def _mills_fall(x: float, mu: float) -> float:
    """R(x) − R(x+μ) = ∫ (1 − sR(s)) ds over [x, x+μ]."""
    s = x + 0.5 * mu * (_NODES + 1.0)
    fall = 1.0 - s * np.sqrt(0.5 * np.pi) * special.erfcx(s / np.sqrt(2.0))
    return float(0.5 * mu * np.dot(_WEIGHTS, fall))
