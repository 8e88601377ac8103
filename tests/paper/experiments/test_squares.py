"""Tables over m and k: every number is there, and a reason is told once."""

from __future__ import annotations

from labeldp_paper.experiments.bag_law import no_privacy
from labeldp_paper.experiments.result import Row
from labeldp_paper.experiments.squares import PRINTED, Reasons, square


def test_sentences_that_differ_in_numbers_share_a_letter() -> None:
    said = [
        "a residual of 11.5 moves by up to 254",
        "no ε below 1000",
        "a residual of 1,062 moves by up to 254",
    ]
    reasons = Reasons(said)
    assert [reasons.mark(one) for one in said] == ["none (a: 11.5)", "none (b)", "none (a: 1,062)"]
    assert reasons.legend() == (
        "(a) a residual of … moves by up to 254",
        "(b) no ε below 1000",
    )


def test_a_sentence_alone_keeps_its_numbers() -> None:
    reasons = Reasons(["bags without a noisy row: 15"])
    assert reasons.mark("bags without a noisy row: 15") == "none (a)"
    assert reasons.legend() == ("(a) bags without a noisy row: 15",)


def cell(bags: int, size: int, error: float | None, form: str = PRINTED, **more: object) -> Row:
    errors = {"mse": error, "mse_std": 1.0, "seeds": 2 if error else 0}
    return {"bags": bags, "bag_size": size, "form": form, **errors, **more}


def test_a_line_for_each_kind_of_number() -> None:
    paper = {"paper_mse": 252.9, "paper_mse_std": 21.3}
    printed = [
        cell(512, 32, 250.0, **paper, **no_privacy("15 bags without a noisy row")),
        cell(512, 64, 240.0, **paper, epsilon=3.25, reason="", epsilon_a_priori=4.5),
        cell(1024, 32, 230.0, **paper, **no_privacy("38 bags without a noisy row")),
    ]
    hopeless = cell(512, 32, None, "ε = 1", **no_privacy("no noise is enough"))
    table = square("it", {"Adam": printed, "Adam, ε = 1": [hopeless]})
    assert table.header == ("m", "test MSE", "k = 32", "k = 64")
    assert table.lines == (
        ("512", "paper", "252.90 ± 21.30", "252.90 ± 21.30"),
        ("512", "Adam", "250.00 ± 1.00", "240.00 ± 1.00"),
        ("512", "Adam, ε = 1", "none (b)", "–"),
        ("512", "ε as printed", "none (a: 15)", "3.25 (a priori 4.5)"),
        ("1,024", "paper", "252.90 ± 21.30", "–"),
        ("1,024", "Adam", "230.00 ± 1.00", "–"),
        ("1,024", "Adam, ε = 1", "–", "–"),
        ("1,024", "ε as printed", "none (a: 38)", "–"),
    )
    assert table.below == (
        "(a) no privacy: … bags without a noisy row",
        "(b) no privacy: no noise is enough",
    )
