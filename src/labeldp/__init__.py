"""labeldp: publish regression data whose labels are private.

    source = scan("table.parquet", label="income", label_range=(0, 250_000))
    release = plan(source, epsilon=1, delta=1e-6).release(source)
    release.save("published")
    LinearRegressor().fit(release).predict(new_rows)

Names are imported when first used, so that starting is fast. A room is entered by its front page:
what is not offered there is its own.
"""

from labeldp.common import late_names

late_names(__name__)


def __getattr__(name: str) -> str:
    """The version; every other name comes from its room."""
    if name != "__version__":
        raise AttributeError(f"module 'labeldp' has no attribute {name!r}")
    from importlib.metadata import version

    return version("labeldp")
