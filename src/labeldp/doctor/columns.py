"""All columns together: facts about each, as a plan would see it, and the pieces of some."""

from __future__ import annotations

import math

import pyarrow as pa

from labeldp.data.columns import Column
from labeldp.data.parts import split_part
from labeldp.doctor.column import COSTLY, MANY_ROWS, Traits, describe, dummies
from labeldp.doctor.pieces import pieces
from labeldp.doctor.view import Known, View
from labeldp.features.column_type import ColumnType, infer_column_type
from labeldp.features.merging import merge_levels
from labeldp.features.notes import Said
from labeldp.features.tally import LevelsAndRanges


def describe_all(view: View) -> list[Traits]:
    """Facts about every feature."""
    source, table, tally = view.source, view.table, _tallied(view)
    many = MANY_ROWS + COSTLY * _scales(table)
    columns = [describe(c, table[c.name], _verdict(c, tally), many) for c in source.columns]
    return [facts | {"levels": _levels(facts, tally)} for facts in columns]


def find_pieces(view: View, columns: list[Traits], said: Known) -> dict[str, list[str]]:
    """What texts would better be taken into, by column, unless somebody said what it is."""
    taken = (*said.categorical, *said.numeric)
    open_ = [c for c in columns if not (c["name"] in taken or split_part(c["name"])[1])]
    found = {facts["name"]: pieces(facts, view.table[facts["name"]]) for facts in open_}
    return {name: parts for name, parts in found.items() if parts}


def _tallied(view: View) -> LevelsAndRanges:
    """What a plan of these rows would look at first."""
    source, table = view.source, view.table
    tally = LevelsAndRanges(source.columns, table.num_rows, source.reader.format)
    for batch in table.to_batches():
        tally.add(batch, None, 0)
    for levels in tally.levels.values():
        levels.flush()
    return tally


def _scales(table: pa.Table) -> int:
    """Design columns that whole numbers in a row would have if they were categories."""
    return sum(dummies(name, table[name]) for name in table.column_names)


def _verdict(column: Column, tally: LevelsAndRanges) -> ColumnType:
    """What it would take a column for."""
    name, least = column.name, math.isqrt(tally.rows)
    return infer_column_type(column, tally.extremes.get(name), tally.levels.get(name), least)


def _levels(facts: Traits, tally: LevelsAndRanges) -> list[str]:
    """What would be said of the levels of a category that are spelt in several ways or rare."""
    levels, notes = tally.levels.get(facts["name"]), list[Said]()
    if facts["kind"] == "category" and levels is not None and not levels.too_many:
        merge_levels(facts["name"], levels.counts, math.isqrt(tally.rows), notes)
    return [str(note) for note in notes]
