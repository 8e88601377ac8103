"""labeldp account, for the mechanisms that draw bags: the answer for people."""

from __future__ import annotations

from typing import Any

from labeldp.cli.output import emit_facts, emit_table, number

Found = dict[str, Any]


def show(document: Found) -> None:
    """Tables for people, and below them what there is to say."""
    budget = f"ε = {document['epsilon']:g}, δ = {document['delta']:g}"
    answers = document["accountants"]
    if not answers:
        emit_facts(document["mechanism"], [("never private", document["reason"])])
    elif document["bag_size"] is None:
        rows = [[name, number(found.get("min_bag_size"))] for name, found in answers.items()]
        emit_table(f"Smallest bag at {budget}", ["accountant", "rows"], rows)
    else:
        title = f"Bags of {number(document['bag_size'])} rows: ε at that δ, δ at that ε ({budget})"
        header = ["accountant", "ε", "δ", "ε over the draw", "δ over the draw", "most bags"]
        emit_table(title, header, [[name, *_cells(found)] for name, found in answers.items()])
    for found in answers.values():
        _show_needs(found.get("a_priori", {}))
    remarks = [(name, words) for name, found in answers.items() for words in _words(found)]
    if remarks:
        emit_facts("Remarks", remarks)


def _show_needs(found: Found) -> None:
    """How little noise, on how few rows, bags of this size need before any draw."""
    if "min_noise_std" in found:
        emit_facts(
            "What these bags need, before any draw",
            [
                ("smallest noise deviation", number(found["min_noise_std"])),
                ("smallest noisy fraction", number(found["min_noisy_fraction"])),
            ],
        )


def _cells(found: Found) -> list[str]:
    found = found.get("a_priori", found)
    given, drawn = found.get("conditional", {}), found.get("unconditional", {})
    values = [part.get(key) for part in (given, drawn) for key in ("epsilon", "delta")]
    return [number(value) for value in (*values, found.get("max_bags"))]


def _words(found: Found) -> list[str]:
    reason = found.get("a_priori", found).get("reason")
    target = found.get("realised", {}).get("target_mu")
    redraw = f"or redraw the weights of bags whose μ is above {target:.4g}" if target else None
    return [words for words in (reason, redraw) if words]
