"""All benchmarks, one after the other, each in a process of its own.

python benchmarks/run.py                            the quick sizes, printed (make bench)
python benchmarks/run.py --docs docs/benchmarks.md  larger sizes, into the page (make bench-docs)

--sizes quick|docs|toy   which sizes; --docs takes "docs" unless told otherwise
--only pass,draw         some of them
--save FILE              keep what was found as JSON
--load FILE              show or write what was found earlier instead of measuring
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from machine import machine
from report import losses, print_report, views

HERE = Path(__file__).parent
TOP, BOTTOM = "<!-- benchmarks -->", "<!-- end of benchmarks -->"

SIZES: dict[str, dict[str, str]] = {
    "quick": {
        "pass": "--rows 250000,500000,1000000 --tables census,criteo,dense-16 --rounds 2",
        "draw": "--rows 500000 --bags 16,247,2223,24706 --rounds 1",
        "accountant": "",
        "writing": "--bags 10000,100000,1000000 --rounds 1",
        "neural_bags": "--bags 512",
    },
    "docs": {
        "pass": "--rows 1000000,2000000,4000000,8000000 "
        "--tables census,criteo,dense-16,dense-4,dense-64",
        "draw": "--rows 1000000,4000000 --bags 1,16,247,2223,24706",
        "accountant": "--rounds 20",
        "writing": "--bags 10000,100000,1250000,2500000,5000000,10000000",
        "neural_bags": "",
    },
    "toy": {
        "pass": "--rows 20000,40000 --tables census,criteo,dense-16 --rounds 1",
        "draw": "--rows 20000 --bags 16,247 --rounds 1",
        "accountant": "--bags 10,247 --rounds 1",
        "writing": "--rows 20000 --bags 1000,2000 --rounds 1",
        "neural_bags": "--bags 16 --rounds 1",
    },
}


def measure(benchmark: str, arguments: str) -> dict[str, Any]:
    """Run one of them."""
    print(f"== {benchmark} {arguments}", file=sys.stderr, flush=True)
    command = [sys.executable, str(HERE / f"{benchmark}.py"), *arguments.split(), "--json"]
    start = time.perf_counter()
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found | {"arguments": arguments, "minutes": (time.perf_counter() - start) / 60}


def page_part(everything: dict[str, Any]) -> str:
    """What stands between the marks of the page."""
    documents = everything["benchmarks"]
    lines = ["## The machine", "", everything["machine"], ""]
    for found in documents:
        name = found["benchmark"]
        lines += [f"## {TITLES[name]}", ""]
        lines += [
            f"[benchmarks/{name}.py](../benchmarks/{name}.py), {found['minutes']:.1f} minutes, "
        ]
        lines[-1] += f"arguments: {found['arguments'] or 'none'}."
        lines += [""]
        lines += [f"![{alt}](plots/{file}.svg)\n" for file, alt in PLOTS.get(name, {}).items()]
        for view in views(found):
            lines += [view.markdown(), ""]
        lines += [f"Missing: {note}\n" for note in found["notes"]]
    lines += ["## Where something else is faster", ""]
    lines += [f"- {line}" for line in losses(documents)] or ["Nowhere in this run."]
    return "\n".join(lines)


TITLES = {
    "pass": "The pass",
    "draw": "Drawing",
    "accountant": "The accountant",
    "writing": "Writing",
    "neural_bags": "Neural bags",
}
PLOTS = {
    "pass": {
        "rows": "seconds against rows: doubling the rows doubles the time",
        "ways": "time of other ways to the same sums, as multiples of ours",
    },
    "draw": {"draws": "seconds against bags: ours is flat, drawing the weights is not"},
    "writing": {"bags": "seconds against bags: beyond the pass, a release grows like writing"},
}


def write_page(page: Path, everything: dict[str, Any]) -> None:
    """Replace what stands between the marks, and draw the plots beside the page."""
    from plots import draw_plots

    text = page.read_text(encoding="utf-8")
    if TOP not in text or BOTTOM not in text:
        raise SystemExit(f"{page} lacks the lines {TOP} and {BOTTOM}; add them")
    before, _, rest = text.partition(TOP)
    after = rest.partition(BOTTOM)[2]
    page.write_text(f"{before}{TOP}\n{page_part(everything)}\n{BOTTOM}{after}", encoding="utf-8")
    draw_plots(everything["benchmarks"], page.parent / "plots")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sizes", choices=list(SIZES))
    parser.add_argument("--only", default=",".join(TITLES))
    parser.add_argument("--docs", type=Path, metavar="PAGE")
    parser.add_argument("--save", type=Path)
    parser.add_argument("--load", type=Path)
    chosen = parser.parse_args()
    if chosen.load:
        everything = json.loads(chosen.load.read_text(encoding="utf-8"))
    else:
        sizes = SIZES[chosen.sizes or ("docs" if chosen.docs else "quick")]
        everything = {"machine": machine(), "benchmarks": []}
        for name in chosen.only.split(","):
            everything["benchmarks"].append(measure(name, sizes[name]))
            if not chosen.docs:
                print_report(everything["benchmarks"][-1])
    if chosen.save:
        chosen.save.write_text(json.dumps(everything, indent=1) + "\n", encoding="utf-8")
    if chosen.docs:
        write_page(chosen.docs, everything)
        return
    if chosen.load:
        for found in everything["benchmarks"]:
            print_report(found)
    print(f"\n{everything['machine']}")
    print("\nWhere something else is faster:")
    print("\n".join(f"  {line}" for line in losses(everything["benchmarks"])) or "  nowhere")


if __name__ == "__main__":
    main()
