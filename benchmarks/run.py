"""All benchmarks, one after the other, each in a process of its own.

python benchmarks/run.py                            the quick sizes, printed (make bench)
python benchmarks/run.py --docs docs/benchmarks.md  larger sizes, into the page (make bench-docs)

--sizes quick|docs|toy   which sizes; --docs takes "docs" unless told otherwise
--only pass,draw         some of them
--save FILE              keep what was found as JSON; of a file that is there, the rest stays
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
        "large": "--rows 1000000,2000000 --rounds 1",
        "default_command": "--rows 1000000 --rounds 1",
        "draw": "--rows 500000 --bags 16,247,2223,24706 --rounds 1",
        "accountant": "",
        "writing": "--bags 10000,100000,1000000 --rounds 1",
        "bags": "--rows 600000 --bags 1000,8000 --rounds 1",
        "neural_bags": "--bags 512",
    },
    "docs": {
        "pass": "--rows 5000000,10000000,20000000 --dense-rows 500000,1000000,2000000 "
        "--tables census,criteo,dense-16,dense-64 --rounds 2",
        "large": "--rows 12500000,25000000,50000000,131900000",
        "default_command": "",
        "draw": "--rows 500000,1000000 --bags 1,16,247,2223,24706",
        "accountant": "--rounds 20",
        "writing": "--bags 10000,100000,1250000,2500000,5000000,10000000",
        "bags": "--rows 10000000 --bags 1000,10000,100000 --rounds 1",
        "neural_bags": "",
    },
    "toy": {
        "pass": "--rows 20000,40000 --tables census,criteo,dense-16 --rounds 1",
        "large": "--rows 20000,40000 --bags 500 --rounds 1",
        "default_command": "--rows 20000 --rounds 1",
        "draw": "--rows 20000 --bags 16,247 --rounds 1",
        "accountant": "--bags 10,247 --rounds 1",
        "writing": "--rows 20000 --bags 1000,2000 --rounds 1",
        "bags": "--rows 20000 --bags 50,100 --rounds 1",
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
    lines = [
        "## The machine and the sizes",
        "",
        everything["machine"],
        "",
        sizes_line(documents),
        "",
    ]
    for found in documents:
        name, given = found["benchmark"], found["arguments"] or "none"
        lines += [
            f"## {TITLES[name]}",
            "",
            f"[benchmarks/{name}.py](../benchmarks/{name}.py), {found['minutes']:.1f} minutes, "
            f"arguments: {given}.",
            "",
            *(f"![{alt}](plots/{file}.svg)\n" for file, alt in PLOTS.get(name, {}).items()),
            *(f"{view.markdown()}\n" for view in views(found)),
            *(f"Missing: {note}\n" for note in found["notes"]),
        ]
    lines += ["## Where something else is faster", ""]
    lines += [f"- {line}" for line in losses(documents)] or ["Nowhere in this run."]
    return "\n".join(lines)


def sizes_line(documents: list[dict[str, Any]]) -> str:
    """Which sizes were taken: those of the page, or smaller ones."""
    given = {found["benchmark"]: found["arguments"] for found in documents}
    name = next((name for name, sizes in SIZES.items() if sizes.items() >= given.items()), "other")
    larger = "" if name == "docs" else "; `make bench-docs` takes larger ones"
    return f"This run took the {name} sizes: {largest(documents)}{larger}."


def largest(documents: list[dict[str, Any]]) -> str:
    """The most rows and bags of any record."""
    records = [record for found in documents for record in found["records"]]
    most = {key: max(record.get(key, 0) for record in records) for key in ("rows", "bags")}
    return f"at most {most['rows']:,} rows and {most['bags']:,} bags"


TITLES = {
    "pass": "The pass",
    "large": "Large tables",
    "default_command": "The default command",
    "draw": "Drawing",
    "accountant": "The accountant",
    "writing": "Writing",
    "bags": "Many bags",
    "neural_bags": "Neural bags",
}
PLOTS = {
    "pass": {
        "rows": "seconds against rows: a release, our pass, and reading alone",
        "ways": "time of other ways to the same sums, as multiples of ours",
    },
    "large": {"large": "seconds against rows: a whole release, and reading alone"},
    "draw": {"draws": "seconds against bags: ours, and ways that draw the weights"},
    "writing": {"bags": "seconds against bags: a release, and pyarrow writing as much"},
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


def collect(sizes: dict[str, str], names: list[str], save: Path | None) -> dict[str, Any]:
    """Run some of them, printing each; what is found is saved as it comes."""
    found: dict[str, Any] = {}
    if save and save.exists():
        kept = json.loads(save.read_text(encoding="utf-8"))["benchmarks"]
        found = {document["benchmark"]: document for document in kept}
    everything: dict[str, Any] = {"machine": machine(), "benchmarks": []}
    for name in names:
        found[name] = measure(name, sizes[name])
        print_report(found[name])
        everything["benchmarks"] = [found[each] for each in TITLES if each in found]
        if save:
            save.write_text(json.dumps(everything, indent=1) + "\n", encoding="utf-8")
    return everything


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
        for found in everything["benchmarks"]:
            print_report(found)
    else:
        sizes = SIZES[chosen.sizes or ("docs" if chosen.docs else "quick")]
        everything = collect(sizes, chosen.only.split(","), chosen.save)
    print(f"\n{everything['machine']}")
    print("\nWhere something else is faster:")
    print("\n".join(f"  {line}" for line in losses(everything["benchmarks"])) or "  nowhere")
    if chosen.docs:
        write_page(chosen.docs, everything)


if __name__ == "__main__":
    main()
