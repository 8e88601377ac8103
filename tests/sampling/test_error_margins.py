"""How much doubt the sampler allows for: never less than there is, and hardly more."""

from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np
import pytest
from flint import arb, ctx
from numpy.typing import NDArray
from scipy import stats

from labeldp.errors import PlanError
from labeldp.sampling import rounded_noise
from labeldp.sampling.streams import Randomness
from tests.sampling.test_radial_noise import Scripted

QUARTER = 2**62  # of the uniform's 64 bits: far from both of its ends


def told(*words: int, more: tuple[int, ...] = ()) -> Randomness:
    """Streams that say these words."""
    seeded, none = Randomness.experiment(0), Scripted(*more)
    return Randomness(seeded.features, Scripted(*words), none, private=False)  # type: ignore[arg-type]


def still(unit: float) -> rounded_noise.NoiseLaw:
    """A law that is all but sure to be near `unit`: only doubles are asked about it here."""
    return rounded_noise.NoiseLaw(lambda p: np.full_like(p, unit), lambda _: arb(0.25))


class Asked(Exception):  # noqa: N818
    """The exact numbers were wanted."""


def wants(row: int, precision: int) -> tuple[Any, Any]:  # noqa: ARG001
    raise Asked


def doubt(
    mean: float,
    error: float = 0.0,
    scale: tuple[float, float] = (1.0, 1.0),
    *,
    unit: float = -(2.0**-80),
    word: int = QUARTER,
    grid: int = 0,
) -> float:
    """How near a border, in steps, the exact numbers begin to be wanted.

    The mean is moved so that the number in doubles lies that near to the border above its cell.
    """
    step = 2.0**grid
    start = math.floor(mean / step) * step

    def wanted(distance: float) -> bool:
        shift = 0.5 * (scale[0] + scale[1]) * unit
        centre = np.array([start + (0.5 - distance) * step - shift])
        try:
            rounded_noise.sample_rounded(
                centre, np.array([error]), scale, grid, told(word), wants, still(unit)
            )
        except Asked:
            return True
        return False

    assert wanted(0.0)
    assert not wanted(0.5)
    low, high = 0.0, 0.5
    for _ in range(30):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if wanted(middle) else (low, middle)
    return low


@pytest.mark.parametrize("grid", [-7, 0, 5])
def test_the_doubt_is_the_error_of_the_mean(grid: int) -> None:
    assert doubt(1.0, 0.25 * 2.0**grid, (1e-9, 1e-9), grid=grid) == pytest.approx(0.25, rel=1e-6)


@pytest.mark.parametrize("unit", [-0.5, -1.5])
def test_the_doubt_is_the_width_of_the_scale_times_the_noise(unit: float) -> None:
    assert doubt(3.0, 0.0, (6.9, 7.1), unit=unit) == pytest.approx(0.2 * abs(unit), rel=1e-6)


@pytest.mark.parametrize("scale", [0.25, 1.0, 16.0])
def test_the_doubt_is_the_relative_error_of_the_inverse(scale: float) -> None:
    """Which is promised to be at most 2**-44 of the noise, here of a thousand scales."""
    found = doubt(0.0, 0.0, (scale, scale), unit=-1000.0, grid=-20)
    assert found == pytest.approx(2.0**-44 * 1000.0 * scale * 2.0**20, rel=0.05)


@pytest.mark.parametrize("scale", [0.5, 1.0, 3.0])
def test_where_the_noise_is_next_to_nothing_some_digits_of_its_scale_are_in_doubt(
    scale: float,
) -> None:
    """Near the middle of the law its inverse is off by up to four units of the last place of 1."""
    found = doubt(0.0, 0.0, (scale, scale), grid=-45)
    assert found * 2.0**-45 / (scale * 2.0**-52) == pytest.approx(4, rel=0.05)


@pytest.mark.parametrize("mean", [-(2.0**40), 2.0**40])
def test_the_last_digits_of_a_large_mean_are_in_doubt(mean: float) -> None:
    """Two roundings, of the sum and of its place, and as much to spare: four units in all."""
    assert 3.75 <= doubt(mean) / (abs(mean) * 2.0**-52) <= 4.75


@pytest.mark.parametrize("scale", [0.01, 0.02])
@pytest.mark.parametrize("tail", [4, 10, 300])
def test_the_bits_that_were_not_drawn_yet_are_in_doubt(tail: int, scale: float) -> None:
    """64 bits pin p to one part in `tail`, and the noise to at most 1.26 of that part."""
    found = doubt(0.0, 0.0, (scale, scale), word=tail)
    assert 1.26 <= found * tail / scale <= 1.6


@pytest.mark.parametrize("tail", [1, 2, 3, 20])
@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("end", [0, 1])
def test_a_border_at_the_end_of_what_the_first_bits_leave_open_is_settled(
    tail: int, upper: bool, end: int
) -> None:
    """Laplace's noise, whose further bits are all 0 or all 1: just beyond a border at either end.

    With words of 2**64·p = tail the noise is log(2p), and a border lies at its nearer end.
    """
    border = math.log(2 * (tail + end)) - 64 * math.log(2)
    side = 1e-6 if end == 0 else -1e-6  # inside what the bits leave open
    sign = -1.0 if upper else 1.0
    mean = 0.5 - sign * (border + side)
    randomness = told(tail + upper * 2**63, more=(end * (2**64 - 1),) * 20)
    asked = []

    def exact(row: int, precision: int) -> tuple[Any, Any]:  # noqa: ARG001
        asked.append(row)
        return arb(mean), arb(1)

    (found,) = rounded_noise.sample_rounded(
        np.array([mean]), np.zeros(1), (1.0, 1.0), 0, randomness, exact, rounded_noise.LAPLACE
    )
    assert asked
    beyond = sign * side < 0  # the number is at the end of its bits, the mean a bit off it
    assert found == float(beyond)


def test_a_step_is_the_1024th_part_of_what_it_serves() -> None:
    assert [rounded_noise.grid_for(scale) for scale in (1.0, 1.99, 2.0, 0.5, 1000.0)] == [
        -10, -10, -9, -11, -1,
    ]  # fmt: skip


@pytest.mark.parametrize("tail", [0, 5, 2**63 - 2])
def test_a_border_decides_only_outside_what_the_bits_leave_open(tail: int) -> None:
    """p is somewhere from tail to tail + 1: borders at both ends decide, between them more bits."""
    sliver = arb(2) ** -80

    def compared(border: Any, *more: int) -> bool:
        uniform = rounded_noise._LazyUniform(tail, told(more=more))
        answer = uniform.is_below(lambda _: border * arb(2) ** -64)
        assert (uniform.tail, uniform.length) == (
            ((tail << 64) + more[0], 128) if more else (tail, 64)
        )
        return answer

    with rounded_noise._precision(300):
        borders = [arb(tail + 1), arb(tail + 1) + sliver, arb(tail + 3)]
        assert all(compared(border) for border in borders)
        borders = [arb(tail), arb(tail) - sliver, arb(tail) - 2]
        assert not any(compared(border) for border in borders)
        half = 2**63
        assert not compared(arb(tail) + sliver, half)
        assert compared(arb(tail + 1) - sliver, half)
        assert compared(arb(tail) + 0.5, half - 1)
        assert not compared(arb(tail) + 0.5, half)


def test_a_number_that_no_bits_settle_is_refused_after_a_thousand_of_them() -> None:
    """What is asked for gets more exact every time; here the answer never does."""
    precisions = []

    def border(precision: int) -> Any:
        assert ctx.prec == precision
        precisions.append(precision)
        return arb(0, 4)

    uniform = rounded_noise._LazyUniform(QUARTER, told(more=(5, 6, *(0,) * 40)))
    with pytest.raises(PlanError) as refusal:
        uniform.is_below(border)
    assert str(refusal.value) == ("a number could not be rounded; nothing was published, run again")
    bits = [64 * count for count in range(1, 17)]
    assert uniform.length == 1024 + 64
    assert uniform.tail >> (uniform.length - 192) == (QUARTER << 128) + (5 << 64) + 6
    assert len(precisions) == len(bits)
    assert all(given >= 2 * length for given, length in zip(precisions, bits, strict=True))


@pytest.mark.parametrize("grid", [-12, 0, 3])
@pytest.mark.parametrize(
    "noise", [rounded_noise.NORMAL, rounded_noise.LAPLACE], ids=["normal", "laplace"]
)
def test_the_search_for_a_cell_begins_at_it(noise: rounded_noise.NoiseLaw, grid: int) -> None:
    """So that none is long: once to begin, and once for each border of the cell."""
    law = stats.norm if noise is rounded_noise.NORMAL else stats.laplace
    rng = np.random.default_rng(grid + 20)
    for word in rng.integers(0, 2**64, 20, dtype=np.uint64):
        mean, asked = float(rng.normal(0, 100)), []

        def exact(row: int, precision: int, mean: float = mean, asked: Any = asked) -> Any:
            asked.append((row, precision))
            return arb(mean), arb(7)

        tail = (int(word) % 2**63 + 0.5) / 2**64
        unit = float(law.isf(tail) if word >= 2**63 else law.ppf(tail))
        found = rounded_noise._cell_in_doubt(3, int(word), unit, grid, told(), exact, noise)
        assert found == round((mean + 7 * unit) / 2.0**grid)
        assert asked == [(3, 192), (3, 320), (3, 320)]


@pytest.mark.parametrize("off", range(-4, 5))
@pytest.mark.parametrize("word", [3, 2**61, 2**63 - 1, 2**63 + 2**60, 2**64 - 5])
def test_the_cell_is_found_wherever_its_search_begins(word: int, off: int) -> None:
    """The one whose borders, half a step on either side, have the number between them."""
    tail = (word % 2**63 + 0.5) / 2**64
    unit = float(stats.norm.isf(tail) if word >= 2**63 else stats.norm.ppf(tail))

    def exact(row: int, precision: int) -> tuple[Any, Any]:  # noqa: ARG001
        return arb(7), arb(3)

    start = unit + off * 2.0**-5 / 3
    found = rounded_noise._cell_in_doubt(
        0, word, start, -5, told(more=(2**63,) * 20), exact, rounded_noise.NORMAL
    )
    assert found == round((7 + 3 * unit) * 2**5)


def test_the_precision_of_balls_is_as_it_was_even_after_a_failure() -> None:
    before = ctx.prec

    def failing() -> None:
        with rounded_noise._precision(777):
            assert ctx.prec == 777
            raise Asked

    with pytest.raises(Asked):
        failing()
    assert ctx.prec == before


def real(ball: Any) -> Any:
    """Its middle as mpmath's number."""
    numerator, exponent = ball.mid().man_exp()
    return mpmath.mpf(int(numerator)) * mpmath.mpf(2) ** int(exponent)


def chi(uniforms: list[Any], freedom: int) -> Any:
    """√(−2·log of all p), the last two of an odd number by Box and Muller's cosine."""
    pairs = freedom // 2
    square = -2 * mpmath.fsum(mpmath.log(p) for p in uniforms[:pairs])
    if freedom % 2:
        last, angle = uniforms[pairs:]
        square -= 2 * mpmath.log(last) * mpmath.cos(2 * mpmath.pi * angle) ** 2
    return mpmath.sqrt(square)


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 7])
def test_a_stretch_is_as_wide_as_its_bits_leave_open(freedom: int) -> None:
    """Words of a few: p somewhere between word and word + 1 parts of 2**64, at either end."""
    words = [3, 5, 9, 17, 33][: freedom // 2 + 2 * (freedom % 2)]
    if freedom % 2:
        words[-1] = 2**61  # an eighth of a turn, where the cosine does change
    made = rounded_noise._ChiScale(freedom, told(*words, 2**62, 2**62, more=(2**63,) * 40))
    with mpmath.workdps(60), rounded_noise._precision(256):
        units = mpmath.mpf(2) ** -64
        ends = []
        for end in (0, 1):
            parts = [word + end for word in words[: len(words) - freedom % 2]]
            parts += [words[-1]] * (freedom % 2)
            ends.append(chi([part * units for part in parts], freedom))
        smallest, largest = sorted(ends)
        low, high = (real(end) for end in (made._ball.lower(), made._ball.upper()))
        assert low <= smallest * (1 + mpmath.mpf(10) ** -15)
        assert high >= largest * (1 - mpmath.mpf(10) ** -15)
        slack = mpmath.mpf(10) ** -6 * largest
        assert high - low <= 1.2 * (largest - smallest) + slack
        # half a part more: the words that follow say so
        ball = made.ball(200)
        assert made._length == 256
        half = [(mpmath.mpf(word) * 2**192 + int("8000000000000000" * 3, 16)) for word in words]
        truth = chi([part / mpmath.mpf(2) ** 256 for part in half], freedom)
        assert abs(real(ball) - truth) <= mpmath.mpf(2) ** -180
        assert float(ball.rad()) < 2.0**-180


def test_bits_are_drawn_until_there_are_as_many_as_digits_are_asked_for() -> None:
    made = rounded_noise._ChiScale(2, told(QUARTER, more=(1, 2, 3)))
    for precision, length in ((64, 64), (65, 128), (128, 128), (200, 256)):
        made.ball(precision)
        assert made._length == length
    assert made._tails.tolist() == [(QUARTER << 192) + (1 << 128) + (2 << 64) + 3]


def test_doubles_about_a_stretch_have_room_for_a_product() -> None:
    """Also once they have been multiplied by a scale, and by little more than that."""
    rng = np.random.default_rng(0)
    for number, scale in rng.uniform(1, 100, (200, 2)):
        made: Any = object.__new__(rounded_noise._ChiScale)
        with rounded_noise._precision(192):
            made._ball = arb(float(number)) / 3
            low, high = made.bounds()
            exact = arb(float(scale)) * made._ball
            assert arb(float(scale * low)) < exact < arb(float(scale * high))
        assert high / low - 1 <= 11 * 2.0**-52


def test_doubles_about_a_stretch_enclose_all_that_it_may_be() -> None:
    """Few bits leave a wide ball: both its ends are inside."""
    made: Any = object.__new__(rounded_noise._ChiScale)
    made._ball = arb(3).union(arb(4))
    low, high = made.bounds()
    assert 2.999 < low < 3
    assert 4 < high < 4.001


def test_radial_noise_has_one_degree_more_than_it_has_numbers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """χ of d + 1 degrees; what is in doubt gets that χ times the scale, to any precision."""
    made = []

    class Stretch:
        def __init__(self, freedom: int, _: Randomness) -> None:
            made.append(freedom)

        def bounds(self) -> tuple[float, float]:
            return 2.0, 3.0

        def ball(self, precision: int) -> Any:
            return arb(2.5) + arb(2) ** -precision

    seen: dict[str, Any] = {}

    def publish(mean: NDArray[np.float64], *rest: Any) -> NDArray[np.float64]:
        seen["rest"] = rest
        return mean

    monkeypatch.setattr(rounded_noise, "_ChiScale", Stretch)
    monkeypatch.setattr(rounded_noise, "sample_rounded", publish)
    mean, error = np.arange(3.0), np.full(3, 0.1)
    randomness = told()
    rounded_noise.sample_rounded_radial(
        mean, error, 7.0, -4, randomness, lambda row, _: (arb(row), arb(11))
    )
    errors, scale, grid, streams, exact, noise = seen["rest"]
    assert made == [4]
    assert errors is error
    assert (scale, grid, streams, noise) == ((14.0, 21.0), -4, randomness, rounded_noise.NORMAL)
    centre, unit = exact(2, 30)
    assert centre == 2
    assert unit == arb(11) * (arb(2.5) + arb(2) ** -30)
