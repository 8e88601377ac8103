from labeldp.source.dates import digits as digits
from labeldp.source.decision import (
    Decision as Decision,
    retyped as retyped,
    text_among_numbers as text_among_numbers,
)
from labeldp.source.delimited import DelimitedReader as DelimitedReader
from labeldp.source.files import (
    DELIMITERS as DELIMITERS,
    FORMATS as FORMATS,
    FileState as FileState,
    find as find,
    sliced as sliced,
    unique_names as unique_names,
)
from labeldp.source.frames import lasting as lasting
from labeldp.source.header import delimiter_of as delimiter_of
from labeldp.source.kinds import (
    MOST_COLUMNS as MOST_COLUMNS,
    Column as Column,
    check_breadth as check_breadth,
    is_clock as is_clock,
    is_moment as is_moment,
    is_number as is_number,
    is_text as is_text,
    plain as plain,
    usable as usable,
)
from labeldp.source.labels import LabelCheck as LabelCheck, to_labels as to_labels
from labeldp.source.looks import ALMOST as ALMOST, Looks as Looks, TextTypes as TextTypes
from labeldp.source.numerals import numbers_among as numbers_among
from labeldp.source.opening import (
    open_table as open_table,
    ready as ready,
    said_again as said_again,
)
from labeldp.source.parts import (
    NUMBER as NUMBER,
    WORD as WORD,
    cut as cut,
    split_part as split_part,
)
from labeldp.source.persons import (
    MARKS as MARKS,
    Marks as Marks,
    read_marks as read_marks,
    unmarked as unmarked,
)
from labeldp.source.protocol import (
    Reader as Reader,
    ReaderOf as ReaderOf,
    TableReader as TableReader,
    Wanted as Wanted,
)
from labeldp.source.reading import Reading as Reading, Text as Text
from labeldp.source.roles import UnknownColumnError as UnknownColumnError
from labeldp.source.rows import (
    check_rows as check_rows,
    take_numbered as take_numbered,
    take_rows as take_rows,
)
from labeldp.source.safe_names import short as short
from labeldp.source.spelling import (
    ANY_TEXT as ANY_TEXT,
    SOFT_BLANKS as SOFT_BLANKS,
    Spelling as Spelling,
    Wording as Wording,
    among_numbers as among_numbers,
    is_told as is_told,
)
from labeldp.source.table import Source as Source, as_source as as_source, scan as scan
from labeldp.source.typed_text import wording_of as wording_of
from labeldp.source.values import (
    NULL_WORDS as NULL_WORDS,
    beyond_exact as beyond_exact,
    floats_of as floats_of,
    integer_ends as integer_ends,
    is_narrow as is_narrow,
    to_float as to_float,
    whole_ends as whole_ends,
)
