"""Options that several commands share, and the click classes that they need.

`--help` of a command shows the options that most people use. Options with a `group` are shown by
`--help-all`, under that title. An option that is absent is None, so that a command can tell what
the user has set. The names of parameters are those of the keyword arguments of `labeldp.scan` and
`labeldp.plan`; `tests/cli/test_options.py` compares them.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from labeldp.cli.output import note, progress
from labeldp.errors import InputError
from labeldp.mechanisms.options import column_names

if TYPE_CHECKING:
    from labeldp.data.source import Source
    from labeldp.passes.engine import Engine
    from labeldp.planning import Plan

Decorator = Callable[[Any], Any]
_SHOW_ALL = "labeldp.help_all"


class Option(click.Option):
    """An option that `--help-all` shows under the title `group`, if it has one."""

    def __init__(self, *declarations: Any, group: str | None = None, **settings: Any) -> None:
        super().__init__(*declarations, **settings)
        self.group = group


class Argument(click.Argument):
    """A positional argument with a line of help."""

    def __init__(self, *declarations: Any, help: str, **settings: Any) -> None:
        super().__init__(*declarations, **settings)
        self.help_text = help  # click shows arguments that have `help` in a section of its own

    def get_help_record(self, ctx: click.Context) -> tuple[str, str]:
        return self.make_metavar(ctx), self.help_text


class Command(click.Command):
    """A command that shows its options in groups and refuses an option that is given twice."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not ctx.resilient_parsing:
            _, _, parameters = self.make_parser(ctx).parse_args(list(args))
            for parameter, times in Counter(parameters).items():
                if not isinstance(parameter, click.Option) or times < 2:
                    continue
                if parameter.multiple or parameter.is_flag:
                    continue
                name, remedy = parameter.opts[0], "keep one of them"
                if name == "--label":  # the other label would be published as a feature
                    remedy = "release labels one by one, each time with --drop for the others"
                raise click.UsageError(f"{name} is given twice and takes one value; {remedy}", ctx)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        # Before the command imports NumPy: idle threads of OpenBLAS go to sleep at once. It is log₂
        # of clock ticks, by default 26.
        os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "10")
        return super().invoke(ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for parameter in self.get_params(ctx):
            title = "Arguments" if isinstance(parameter, click.Argument) else "Options"
            if record := parameter.get_help_record(ctx):
                sections.setdefault(getattr(parameter, "group", None) or title, []).append(record)
        shown = list(sections) if ctx.meta.get(_SHOW_ALL) else ["Arguments", "Options"]
        for title in shown:
            if sections[title]:
                with formatter.section(title):
                    formatter.write_dl(sections[title])
        hidden = sum(len(records) for title, records in sections.items() if title not in shown)
        if hidden:
            formatter.write_paragraph()
            formatter.write_text(f"{ctx.command_path} --help-all shows {hidden} more options.")


def _show_all_options(ctx: click.Context, _option: click.Parameter, wanted: bool) -> None:
    if wanted:
        ctx.meta[_SHOW_ALL] = True
        click.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()


def argument(name: str, help: str, **settings: Any) -> Decorator:
    """Declare a positional argument."""
    return click.argument(name, cls=Argument, help=help, **settings)


def option(*declarations: str, **settings: Any) -> Decorator:
    """Declare an option; `group` is that of `Option`."""
    return click.option(*declarations, cls=Option, **settings)


def flag(*declarations: str, **settings: Any) -> Decorator:
    """Declare a flag that is None where it is absent."""
    return option(*declarations, is_flag=True, default=None, **settings)


def column_list(*declarations: str, **settings: Any) -> Decorator:
    """Declare a comma-separated list that may be repeated; None where it is absent."""

    def parse(_ctx: Any, _option: Any, texts: tuple[str, ...]) -> tuple[str, ...] | None:
        return column_names(texts) or None

    settings = {"metavar": "A,B", "multiple": True, "callback": parse} | settings
    return option(*declarations, **settings)


def together(*decorators: Decorator, group: str | None = None) -> Decorator:
    """Return one decorator that declares several options, in this order and in this group."""

    def decorate(function: Any) -> Any:
        for decorator in reversed(decorators):
            function = decorator(function)
            if group is not None:
                function.__click_params__[-1].group = group
        return function

    return decorate


# ---- options of several commands

_DATA = "A Parquet, CSV(.gz), TSV, Arrow, Excel, Stata, SPSS or SAS file, a directory or a glob."
data_argument = argument("data", _DATA)
release_argument = argument("directory", "A release directory.", type=Path)
json_option = option("--json", "as_json", is_flag=True, help="Print one JSON document.")
help_all_option = option(
    "--help-all",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_all_options,
    help="Show all options.",
)
_OTHER = "An option of a mechanism of another package."
settings_option = option(
    "--option", "-o", "settings", metavar="NAME=VALUE", multiple=True, help=_OTHER
)
verbose_option = option(
    "--verbose", is_flag=True, group="Output options", help="Show details and all notes."
)
text_options = together(
    option(
        "--delimiter",
        metavar="SIGN",
        callback=lambda _ctx, _option, text: "\t" if text in ("tab", "\\t") else text,
        help="Sign between fields, or tab.",
    ),
    option("--encoding", metavar="NAME", help="Encoding (default: UTF-8 or cp1252)."),
    option("--skip-lines", type=int, metavar="N", help="Lines to skip above the header."),
    option("--skip-footer", type=int, metavar="N", help="Lines to skip below the last row."),
    option("--decimal", metavar="SIGN", help="Decimal sign, . or , (default: found by column)."),
    column_list("--na", help="Texts that mean a missing value; for one column: age=999."),
    option("--date-format", metavar="FORMAT", help="Format of dates, such as %d.%m.%Y."),
    group="Text file options",
)
_TABLE = "Table options"
column_options = together(
    column_list("--categorical", help="Columns that are codes, not numbers."),
    column_list("--drop", help="Columns to leave out."),
    column_list("--numeric", group=_TABLE, help="Columns that are numbers, not codes."),
)
engine_options = together(
    option("--threads", type=int, help="Number of threads (default: one for each core)."),
    option(
        "--engine",
        "engine_name",
        type=click.Choice(["local", "spark"]),
        default="local",
        help="What reads the data (default: local).",
    ),
    group="Engine options",
)

# ---- options of plan, release and audit

table_options = together(
    data_argument,
    option("--label", metavar="COLUMN", help="The private label column."),
    option(
        "--label-range",
        type=(float, float),
        metavar="LO HI",
        help="Public range of the labels, chosen without looking at them.",
    ),
    column_list("--classes", help="The two values of the labels, for 0 and for 1, in its place."),
    column_options,
    column_list("--features", group=_TABLE, help="Feature columns (default: all but the label)."),
    option(
        "--person", metavar="COLUMN", group=_TABLE, help="Protect all rows with one id together."
    ),
    flag("--clip", group=_TABLE, help="Clip labels to the range instead of refusing them."),
    flag(
        "--drop-missing-labels", group=_TABLE, help="Drop rows without a label; this shows which."
    ),
    text_options,
)

design_options = together(
    option("--formula", metavar="'Y ~ A + B'", help="The design: 'price ~ spline(age) + sex*edu'."),
    option("--basis", metavar="NAME", help="linear, splines, splines:KNOTS or splines+fourier:N."),
    column_list("--interactions", metavar="A:B,C:D", help="Pairs of columns to multiply, or all."),
    column_list("--log", help="Columns that enter as sign(x)·log(1 + |x|)."),
    option(
        "--winsor",
        type=float,
        help="Fraction at each end moved to the quantile (default: 0.001, outliers only).",
    ),
    option("--min-count", type=int, help="Merge category levels with fewer rows (default: √rows)."),
    flag("--no-intercept", "intercept", flag_value=False, help="Do not add a constant column."),
    group="Design options",
)
mechanism_options = together(
    option(
        "--mechanism",
        metavar="NAME",
        help="wtd-flag, shaped-flag, noisy-rows, sampled-wtd-flag, sampled-noisy-wtd-lag, or auto "
        "(default): the one that adds least error.",
    ),
    together(
        option("--accountant", metavar="NAME", help="exact (default) or exact-worst-case."),
        option("--residual-guess", type=float, help="Residual mean square, for the forecast only."),
        settings_option,
        group="Mechanism options",
    ),
    together(
        option("--bags", type=int, help="Number of aggregates (default: that of least error)."),
        option("--max-megabytes", type=float, help="Largest size of the released file."),
        group="Options of wtd-flag, sampled-wtd-flag and sampled-noisy-wtd-lag",
    ),
    together(
        option("--floor", metavar="MODE", help="measured+added, added or declared."),
        option("--residual-ms", type=float, help="Residual mean square, with --floor declared."),
        group="Options of wtd-flag and sampled-wtd-flag",
    ),
    together(
        option("--bag-size", type=int, help="Rows in each bag (default: the best size)."),
        flag("--over-draw", help="Give a guarantee that includes the random draw of the bags."),
        option("--bag-seed", type=click.IntRange(min=0), help="Seed, to draw the same bags again."),
        group="Options of sampled-wtd-flag and sampled-noisy-wtd-lag",
    ),
    together(
        option("--noise", metavar="LAW", help="gaussian, radial (pure ε) or auto (default)."),
        option("--residual-share", type=float, help="Budget share of the residual, 0 for none."),
        option("--shape-ridge", type=float, help="Shape the noise for fits with this ridge."),
        group="shaped-flag options",
    ),
    flag("--with-features", group="noisy-rows options", help="Publish the raw features, too."),
    together(
        option("--noise-std", type=float, help="Standard deviation of the noise on labels."),
        option("--noisy-fraction", type=float, help="Fraction of rows with noise (default: all)."),
        group="sampled-noisy-wtd-lag options",
    ),
)
plan_options = together(
    table_options,
    option("--epsilon", type=float, help="Privacy budget ε; smaller is more private (default: 1)."),
    option("--delta", type=float, help="Probability that the ε bound fails (default: 1e-6)."),
    mechanism_options,
    flag("--force", "--anyway", "force", help="Continue if a fit may not beat the mean label."),
    design_options,
    engine_options,
    help_all_option,
)

# ---- values of these options


def split_options(options: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the keyword arguments of `scan` and of `plan` that the user has set."""
    from labeldp.data.source import TABLE_OPTIONS

    settings = parse_settings(options.pop("settings", ()))
    given = {name: value for name, value in options.items() if value is not None}
    scan = {name: given.pop(name) for name in TABLE_OPTIONS if name in given}
    return scan, given | settings


def parse_settings(settings: Iterable[str]) -> dict[str, Any]:
    """Parse NAME=VALUE; the value is true, false, a number or text."""
    options: dict[str, Any] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not (name and equals):
            raise InputError(f"-o {setting} is no option; write -o name=value")
        try:
            options[name.replace("-", "_")] = json.loads(value.lower())
        except ValueError:
            options[name.replace("-", "_")] = value
    return options


def make_engine(name: str, threads: int | None) -> Engine:
    """Return the engine of --engine and --threads."""
    if name == "local":
        from labeldp.passes.engine import LocalEngine

        return LocalEngine(threads or 0, progress)
    if threads:
        raise InputError("--threads is for --engine local; Spark has settings of its own")
    from labeldp.spark.engine import SparkEngine

    return SparkEngine(progress)


def open_data(data: str, engine: str) -> Any:
    """Return what `scan` reads: a path, or what Spark finds there."""
    if engine != "spark":
        return data
    from labeldp.spark.engine import read

    return read(data)


def scan_table(
    data: str,
    engine: str,
    keywords: dict[str, Any],
    *,
    formula: str | None = None,
    plan: Plan | None = None,
) -> Source:
    """Scan a table with its labels, as for `plan` if there is one, and print notes about it."""
    from labeldp.data.source import as_source
    from labeldp.features.formula import Formula

    if plan is not None:
        source = plan.scan(open_data(data, engine), **keywords)
    else:
        if "label" not in keywords and formula is not None:
            keywords["label"] = Formula(formula).label
        source = as_source(open_data(data, engine), **keywords)
    for text in source.notes:
        note(text)
    return source
