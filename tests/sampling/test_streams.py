"""Keys of a release's three streams: each its own, and each of 256 bits."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from scipy import stats

from labeldp.sampling import streams as _random

STREAMS = ("features", "labels", "refinement")


def streams(randomness: _random.Randomness) -> list[np.random.Generator]:
    return [getattr(randomness, name) for name in STREAMS]


def key(stream: np.random.Generator) -> tuple[int, ...]:
    """The eight 32-bit words of a ChaCha20 key."""
    state: Any = stream.bit_generator.state
    return tuple(int(word) for word in state["state"]["keysetup"])


@pytest.mark.parametrize("place", [0, 1, 7])
@pytest.mark.parametrize("private", [True, False])
def test_no_two_streams_of_a_release_say_the_same(private: bool, place: int) -> None:
    """Compared from their first word on: with one key for all they would be equal throughout.

    Then the published features would tell the noise of the labels.
    """
    made = _random.Randomness.from_os() if private else _random.Randomness.experiment(3)
    drawn = [_random.words(stream, 64) for stream in streams(made.block(place))]
    for one, other in combinations(drawn, 2):
        assert not np.isin(one, other).any()


def test_every_stream_has_256_bits_of_its_own() -> None:
    """Each of the 256 bits is seen both ways; of 192 keys one that is not fails, by 256/2**191."""
    keys = [key(s) for _ in range(64) for s in streams(_random.Randomness.from_os())]
    assert len(set(keys)) == len(keys)
    assert {len(words) for words in keys} == {8}
    bits = np.unpackbits(np.array(keys, dtype=np.uint32).view(np.uint8), axis=1)
    assert bits.shape == (192, 256)
    assert bits.sum(axis=0).min() > 0
    assert bits.sum(axis=0).max() < len(keys)


def test_normals_have_the_standard_law_and_a_slightly_other_one_is_noticed() -> None:
    drawn = _random.normals(_random.Randomness.experiment(5).features, 200_000)
    assert stats.kstest(drawn, "norm").pvalue > 1e-3
    for scale, shift in ((1.04, 0.0), (0.96, 0.0), (1.0, 0.03)):
        assert stats.kstest(drawn, stats.norm(shift, scale).cdf).pvalue < 1e-6


def test_normals_are_the_quantiles_of_their_words() -> None:
    """One word each, in its middle: neither end of the line is ever reached."""
    words, drawn = (
        made(_random.Randomness.experiment(6).features, 1000)
        for made in (_random.words, _random.normals)
    )
    below = stats.norm.cdf(drawn)
    assert np.abs(below * 2.0**64 - words.astype(float)).max() < 2.0**64 * 1e-14
