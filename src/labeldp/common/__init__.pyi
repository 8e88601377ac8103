from labeldp.common.arguments import (
    checked as checked,
    named as named,
    plain as plain,
    plain_fields as plain_fields,
    refuse_unknown as refuse_unknown,
)
from labeldp.common.arrow import (
    arrow_numbers as arrow_numbers,
    arrow_words as arrow_words,
    avoid_large_pages as avoid_large_pages,
    cast_integers as cast_integers,
    column_numbers as column_numbers,
    integer_kind as integer_kind,
    narrow_integers as narrow_integers,
    no_value as no_value,
    numpy_numbers as numpy_numbers,
)
from labeldp.common.cards import Card as Card, Shown as Shown, budget as budget
from labeldp.common.files import (
    Check as Check,
    canonical_json as canonical_json,
    check_target as check_target,
    is_count as is_count,
    is_directory as is_directory,
    is_flag as is_flag,
    is_number as is_number,
    is_positive as is_positive,
    is_text as is_text,
    is_whole as is_whole,
    json_digest as json_digest,
    list_of as list_of,
    new_directory as new_directory,
    new_path as new_path,
    obstacle as obstacle,
    optional as optional,
    parse_json as parse_json,
    read_json as read_json,
    read_small as read_small,
    refuse_existing as refuse_existing,
    written as written,
)
from labeldp.common.front import late_names as late_names
from labeldp.common.pictures import (
    Curve as Curve,
    Picture as Picture,
    draw as draw,
    need_matplotlib as need_matplotlib,
    render as render,
)
from labeldp.common.threads import addresses as addresses, in_order as in_order, workers as workers
