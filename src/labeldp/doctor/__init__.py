"""The table doctor: what a table holds, what that costs, and the options that suit it.

    look(data) → a dictionary of plain values     page(found) → the same as one HTML page

Modules: `column` (one column), `strays` (texts among its numbers), `table` (all of them together,
and `look`), `label` (for the curator only), `page`; `inspection` (what mechanisms would cost on it,
for the curator too). Other rooms import from this page alone.
"""

from labeldp.common import late_names

late_names(__name__)
