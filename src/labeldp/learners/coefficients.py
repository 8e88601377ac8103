"""Coefficients as people read them: values, intervals, errors from privacy and from sampling."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from labeldp.learners.least_squares import Fit, intervals
from labeldp.learners.protocol import Array, Coefficient
from labeldp.learners.whitened import NoisyNormalEquations


def estimated(
    fit: Fit, names: tuple[str, ...], confidence: float, transform: Array | None = None
) -> tuple[Coefficient, ...]:
    """Of a fit that estimates its noise too; bare values where nothing is left to do so."""
    if fit.multiplier > 0 or fit.dof < 1:
        values = fit.coefficients if transform is None else transform @ fit.coefficients
        return bare(names, values)
    bounds = intervals(fit, transform, confidence=confidence)
    return tuple(
        Coefficient(name, float(value), float(low), float(high))
        for name, value, low, high in zip(names, *bounds, strict=True)
    )


def bare(names: tuple[str, ...], values: Array) -> tuple[Coefficient, ...]:
    """Without intervals, as of penalised fits."""
    pairs = zip(names, values, strict=True)
    return tuple(Coefficient(name, float(value), None, None) for name, value in pairs)


def measured(
    white: NoisyNormalEquations, names: tuple[str, ...], transform: Array, confidence: float
) -> tuple[Coefficient, ...]:
    """Least squares, with intervals for deviations that are known."""
    inverse = transform @ np.linalg.pinv(white.root)
    privacy = np.linalg.norm(inverse @ white.spread, axis=1)
    reach = white.deviations(confidence) * privacy
    found = tuple(
        replace(entry, low=entry.value - float(by), high=entry.value + float(by))
        for entry, by in zip(bare(names, inverse @ white.estimate), reach, strict=True)
    )
    return with_errors(found, privacy, sampling_errors(white, transform))


def sampling_errors(white: NoisyNormalEquations, transform: Array) -> Array | None:
    """Of the fit with all labels, σ²(XᵀX)⁻¹ (theory §10); None if the residual is hardly known."""
    variance = white.residual_variance
    if variance is None:
        return None
    spread = np.linalg.norm(transform @ np.linalg.pinv(white.root), axis=1)
    return np.asarray(math.sqrt(variance) * spread)


def with_errors(
    coefficients: tuple[Coefficient, ...], privacy: Array, sampling: Array | None
) -> tuple[Coefficient, ...]:
    """With standard errors from privacy and, where it is known, from sampling."""
    if sampling is None:
        pairs = zip(coefficients, privacy, strict=True)
        return tuple(replace(entry, privacy_error=float(error)) for entry, error in pairs)
    return tuple(
        replace(
            entry,
            privacy_error=float(noise),
            sampling_error=float(sampled),
            total_error=math.hypot(noise, sampled),
        )
        for entry, noise, sampled in zip(coefficients, privacy, sampling, strict=True)
    )
