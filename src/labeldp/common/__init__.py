"""What every room may use, imported when first used, so that to take one tool loads no other.

arguments  of the kind that their hints say
arrow      Arrow's numbers and words
cards      how values show themselves
files      that appear whole, and JSON that is as it should be
front      front pages such as this one
pictures   the style of every picture
threads    several at once, in order

Other rooms import from this page alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from labeldp.common.front import late_names

if TYPE_CHECKING:
    from labeldp.common.arguments import checked, named, plain, plain_fields, refuse_unknown
    from labeldp.common.arrow import (
        arrow_numbers,
        arrow_words,
        avoid_large_pages,
        cast_integers,
        column_numbers,
        integer_kind,
        narrow_integers,
        no_value,
        numpy_numbers,
    )
    from labeldp.common.cards import Card, Shown, budget
    from labeldp.common.files import (
        Check,
        canonical_json,
        check_target,
        is_count,
        is_directory,
        is_flag,
        is_number,
        is_positive,
        is_text,
        is_whole,
        json_digest,
        list_of,
        new_directory,
        new_path,
        obstacle,
        optional,
        parse_json,
        read_json,
        read_small,
        refuse_existing,
        written,
    )
    from labeldp.common.pictures import Curve, Picture, draw, need_matplotlib, render
    from labeldp.common.threads import addresses, in_order, workers

__all__ = [
    "Card",
    "Check",
    "Curve",
    "Picture",
    "Shown",
    "addresses",
    "arrow_numbers",
    "arrow_words",
    "avoid_large_pages",
    "budget",
    "canonical_json",
    "cast_integers",
    "check_target",
    "checked",
    "column_numbers",
    "draw",
    "in_order",
    "integer_kind",
    "is_count",
    "is_directory",
    "is_flag",
    "is_number",
    "is_positive",
    "is_text",
    "is_whole",
    "json_digest",
    "late_names",
    "list_of",
    "named",
    "narrow_integers",
    "need_matplotlib",
    "new_directory",
    "new_path",
    "no_value",
    "numpy_numbers",
    "obstacle",
    "optional",
    "parse_json",
    "plain",
    "plain_fields",
    "read_json",
    "read_small",
    "refuse_existing",
    "refuse_unknown",
    "render",
    "workers",
    "written",
]

late_names(
    __name__,
    arguments="checked named plain plain_fields refuse_unknown",
    arrow=(
        "arrow_numbers arrow_words avoid_large_pages cast_integers column_numbers integer_kind "
        "narrow_integers no_value numpy_numbers"
    ),
    cards="Card Shown budget",
    files=(
        "Check canonical_json check_target is_count is_directory is_flag is_number is_positive "
        "is_text is_whole json_digest list_of new_directory new_path obstacle optional "
        "parse_json read_json read_small refuse_existing written"
    ),
    pictures="Curve Picture draw need_matplotlib render",
    threads="addresses in_order workers",
)
