"""What a release says of its own predictions as soon as it is drawn: post-processing, and free.

`labeldp release` ends by it, and `Plan.release` warns by it (which looks it up by name: learners
stand further down the road).
"""

from __future__ import annotations

from labeldp.data.source import Source
from labeldp.errors import InputError
from labeldp.learners.linear import LinearOptions
from labeldp.learners.linear_fit import fit_release
from labeldp.learners.quality import Quality
from labeldp.release.files import Release

_MOST_COLUMNS = 1000


def estimated(released: Release, source: Source) -> Quality | None:
    """Of the default fit on the release of this table.

    Nothing, if it does not show its noise, or has so many columns that fitting takes long.
    """
    known = released.aggregates_features or released.holds_rows
    if not known or len(released.features.names) > _MOST_COLUMNS:
        return None
    rows = None if released.aggregates_features else source
    try:
        return fit_release(released, rows, LinearOptions()).quality
    except InputError:  # too few aggregates for a fit
        return None


def doubt(released: Release, source: Source) -> str | None:
    """Why predictions may be no better than the mean of the labels; None if they are shown to."""
    found = estimated(released, source)
    return None if found is None else found.doubt
