"""The table doctor: what a table holds, what that costs, and the options that suit it.

    look(data) → a dictionary of plain values     page(found) → the same as one HTML page

Modules: `column` (one column), `strays` (texts among its numbers), `table` (all of them together,
and `look`), `label` (for the curator only), `page`; `inspection` (what mechanisms would cost on it,
for the curator too). Other rooms import from this page alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from labeldp.common import late_names

if TYPE_CHECKING:
    from labeldp.doctor.inspection import inspect
    from labeldp.doctor.page import cells, command, label_facts, page, summary
    from labeldp.doctor.table import look

__all__ = ["cells", "command", "inspect", "label_facts", "look", "page", "summary"]

late_names(
    __name__,
    inspection="inspect",
    page="cells command label_facts page summary",
    table="look",
)
