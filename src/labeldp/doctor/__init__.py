"""The table doctor: what a table holds, what that costs, and the options that suit it.

    look(data) → a dictionary of plain values     page(found) → the same as one HTML page

Modules: `table` (`look`, and in which order what is found), `view` (what is known, and the table as
it reads with that), `strays` (texts among numbers), `codes` (numbers for "no answer"), `compact`
(digits that are days or times), `column` and `columns` (facts about one, and about all), `pieces`
(of texts), `between` (what columns and rows are to each other), `label` (for the curator only),
`advice` (findings and options), `page`; `inspection` (what mechanisms would cost on it, for the
curator too). Other rooms import from this page alone.
"""
