"""The pictures of the mechanisms in docs/: small tables, and what is published of them.

python -m experiments.diagrams docs/plots
"""

from __future__ import annotations

import sys
from pathlib import Path

PUBLIC, PRIVATE, NOISY = "#cfe0f3", "#f6c9b5", "#e9e1b5"
INK = "#1f2933"
CELL, ROWS, FEATURES = 22, 7, 3


class Drawing:
    """An SVG picture that is drawn shape by shape."""

    def __init__(self, width: int, height: int) -> None:
        self.size = width, height
        self.parts: list[str] = []

    def text(
        self, x: float, y: float, words: str, *, size: int = 14, anchor: str = "middle"
    ) -> None:
        self.parts.append(
            f'<text x="{x:g}" y="{y:g}" font-size="{size}" text-anchor="{anchor}">{words}</text>'
        )

    def cell(self, x: float, y: float, color: str, words: str = "") -> None:
        self.parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{CELL}" height="{CELL}" fill="{color}" '
            f'stroke="{INK}" stroke-width="0.7"/>'
        )
        if words:
            self.text(x + CELL / 2, y + CELL * 0.7, words, size=12)

    def arrow(self, x1: float, y1: float, x2: float, y2: float) -> None:
        self.parts.append(
            f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" stroke="{INK}" '
            'stroke-width="1.3" marker-end="url(#head)"/>'
        )

    def table(self, x: float, y: float, rows: int, label: str, *, mark: str = "") -> None:
        """Draw rows of features and, a little apart, their label."""
        for row in range(rows):
            for column in range(FEATURES):
                self.cell(x + column * CELL, y + row * CELL, PUBLIC)
            self.cell(x + FEATURES * CELL + 6, y + row * CELL, label, mark)

    def svg(self) -> str:
        width, height = self.size
        head = (
            '<marker id="head" markerWidth="9" markerHeight="9" refX="8" refY="4" orient="auto">'
            f'<path d="M0,0 L9,4 L0,8 z" fill="{INK}"/></marker>'
        )
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
                f'font-family="sans-serif" fill="{INK}">',
                f"<defs>{head}</defs>",
                f'<rect width="{width}" height="{height}" fill="white"/>',
                *self.parts,
                "</svg>\n",
            ]
        )


def start(title: str) -> Drawing:
    """Return a drawing with the raw table at its left and the word for the way to its right."""
    drawing = Drawing(640, 236)
    drawing.text(53, 22, "features")
    drawing.text(111, 22, "label")
    drawing.table(20, 32, ROWS, PRIVATE)
    drawing.text(12, 210, "the table: not published", size=13, anchor="start")
    drawing.text(290, 22, title)
    return drawing


def finish(drawing: Drawing, words: str, *, x: float = 540) -> str:
    drawing.text(x, 210, words, size=13)
    return drawing.svg()


def shaped() -> str:
    """All rows with public weights; noise on the labels of the sums."""
    drawing = start("public weights for each sum")
    for row in range(3):
        y = 62 + row * 36
        drawing.arrow(130, 109, 215, y + 11)
        drawing.text(290, y + 16, f"Σ w{'₁₂₃'[row]}·row")
        drawing.arrow(355, y + 11, 480, y + 11)
        drawing.text(418, y + 4, "+ noise", size=12)
        for column in range(FEATURES):
            drawing.cell(490 + column * CELL, y, PUBLIC)
        drawing.cell(490 + FEATURES * CELL + 6, y, NOISY, "±")
    drawing.text(290, 188, "as many sums as columns", size=13)
    return finish(drawing, "published: sums and weights")


def weighted() -> str:
    """All rows with secret weights; many sums."""
    drawing = start("secret random weights")
    for row in range(4):
        y = 44 + row * 34
        drawing.arrow(130, 109, 215, y + 11)
        drawing.text(290, y + 16, "Σ ?·row")
        drawing.arrow(355, y + 11, 480, y + 11)
        for column in range(FEATURES):
            drawing.cell(490 + column * CELL, y, PUBLIC)
        drawing.cell(490 + FEATURES * CELL + 6, y, NOISY, "?")
    drawing.text(290, 190, "thousands of sums", size=13)
    return finish(drawing, "published: the sums")


def rows() -> str:
    """Noise on every label."""
    drawing = start("noise on every label")
    drawing.arrow(130, 109, 470, 109)
    drawing.text(300, 102, "each label + its own noise", size=13)
    drawing.table(490, 32, ROWS, NOISY, mark="±")
    return finish(drawing, "published: noisy labels")


def bags() -> str:
    """Some rows in bags, each of which gives one published sum."""
    drawing = start("bags of rows, drawn at random")
    for bag, members in enumerate(((0, 3), (1, 5), (2, 6))):
        y = 56 + bag * 42
        for member in members:
            drawing.arrow(130, 43 + member * CELL, 238, y + 11)
        drawing.text(292, y + 16, f"bag {bag + 1}: Σ w·row")
        drawing.arrow(360, y + 11, 480, y + 11)
        for column in range(FEATURES):
            drawing.cell(490 + column * CELL, y, PUBLIC)
        drawing.cell(490 + FEATURES * CELL + 6, y, NOISY, "±")
    return finish(drawing, "published: one sum for each bag", x=525)


PICTURES = {"shaped": shaped, "wtd": weighted, "rows": rows, "bags": bags}


def main(folder: str) -> None:
    for name, draw in PICTURES.items():
        (Path(folder) / f"mechanism_{name}.svg").write_text(draw(), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
