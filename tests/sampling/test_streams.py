"""Streams of a release: ChaCha20 word by word, three keys of 256 bits, one use."""

from __future__ import annotations

import copy
import hashlib
import pickle
import struct
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from scipy import stats

from labeldp import InputError
from labeldp.sampling import streams
from labeldp.sampling.streams import Randomness

M = 2**32 - 1


def quarter(x: list[int], a: int, b: int, c: int, d: int) -> None:
    for one, two, three, turn in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
        x[one] = (x[one] + x[two]) & M
        x[three] ^= x[one]
        x[three] = ((x[three] << turn) | (x[three] >> (32 - turn))) & M


def block(key: int, nonce: int, counter: int) -> list[int]:
    """Eight 64-bit words."""
    start = [
        *struct.unpack("<4I", b"expand 32-byte k"),
        *struct.unpack("<8I", key.to_bytes(32, "little")),
    ]
    start += [counter & M, counter >> 32, nonce & M, nonce >> 32]
    x = list(start)
    for _ in range(10):
        for place in range(4):
            quarter(x, place, 4 + place, 8 + place, 12 + place)
        for place in range(4):
            quarter(x, place, 4 + (place + 1) % 4, 8 + (place + 2) % 4, 12 + (place + 3) % 4)
    done = [(one + two) & M for one, two in zip(x, start, strict=True)]
    return [done[2 * k] | done[2 * k + 1] << 32 for k in range(8)]


def words(key: int, nonce: int, count: int) -> list[int]:
    return [word for number in range(-(-count // 8)) for word in block(key, nonce, number)][:count]


def test_the_twin_is_chacha20() -> None:
    """RFC 8439, appendix A.1, the first vector: a key and a nonce of zeros."""
    first = b"".join(word.to_bytes(8, "little") for word in block(0, 0, 0))
    assert first.hex().startswith(
        "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
    )


def key_of(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest(), "big")


@pytest.mark.parametrize("place", [0, 1, 7, 2**33 + 5])
def test_streams_are_keyed_each_for_itself_and_blocks_by_their_number(place: int) -> None:
    made = Randomness.experiment(42).block(place)
    for number, stream in enumerate((made.features, made.labels, made.refinement)):
        key = key_of(f"labeldp experiment 42 {number}")
        assert streams.words(stream, 20).tolist() == words(key, place, 20)


def test_a_public_stream_follows_from_its_seed_and_purpose() -> None:
    found = streams.words(streams.public_stream("seed", "bags"), 9)
    assert found.tolist() == words(key_of("labeldp public bags seed"), 0, 9)
    assert found.dtype == np.uint64


def test_a_fresh_seed_is_256_bits_in_text() -> None:
    seeds = {streams.fresh_seed() for _ in range(20)}
    assert len(seeds) == 20
    assert {len(bytes.fromhex(seed)) for seed in seeds} == {32}


def test_streams_serve_one_release_in_the_process_that_made_them() -> None:
    refusal = (
        "this Randomness was used before or comes from another process; a release needs one of its "
        "own: leave `randomness` out"
    )
    made = Randomness.experiment(1)
    made.spend()
    for used in (made, Randomness.experiment(1).block(3)):
        with pytest.raises(InputError) as told:
            used.spend()
        assert str(told.value) == refusal
    foreign = Randomness.experiment(1)
    foreign._process = (foreign._process or 0) + 1
    with pytest.raises(InputError):
        foreign.spend()
    assert Randomness.experiment(1).block(0).private is False


def test_streams_are_neither_pickled_nor_copied() -> None:
    words = "a generator holds its key and must not be copied to another process"
    for travel in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match=words):
            travel(Randomness.experiment(1))


def test_block_0_is_the_streams_themselves_as_far_as_they_got() -> None:
    made = Randomness.experiment(5)
    assert made.block(0) is made
    first = streams.words(made.features, 4)
    assert not np.isin(streams.words(made.block(0).features, 4), first).any()
    assert made.block(1).private is made.private


def test_a_normal_is_the_quantile_of_the_middle_of_its_word() -> None:
    """Also of the smallest word and of the largest, which in doubles is 2**64: both are finite."""

    class Ends:
        def integers(self, low: int, high: int, size: int, dtype: type) -> np.ndarray:
            assert (low, high, size) == (0, 2**64, 3)
            return np.array([0, 2**63, 2**64 - 1], dtype)

    smallest, middle, largest = streams.normals(Ends(), 3)  # type: ignore[arg-type]
    assert smallest == pytest.approx(-9.155, abs=0.2)
    assert abs(middle) < 1e-15
    assert 8 < largest < 9


def three(randomness: Randomness) -> list[np.random.Generator]:
    return [randomness.features, randomness.labels, randomness.refinement]


@pytest.mark.parametrize("place", [0, 7])
@pytest.mark.parametrize("private", [True, False])
def test_no_two_streams_of_a_release_say_the_same(private: bool, place: int) -> None:
    """With one key for all, the published features would reveal the noise of the labels."""
    randomness = Randomness.from_os() if private else Randomness.experiment(3)
    assert randomness.private is private
    drawn = [streams.words(stream, 64) for stream in three(randomness.block(place))]
    for one, other in combinations(drawn, 2):
        assert not np.isin(one, other).any()


def test_every_stream_has_256_bits_of_its_own_and_shows_none() -> None:
    """Each of the 256 bits is seen both ways; of 192 keys one that is not fails, by 256/2**191."""
    keys = []
    for randomness in [Randomness.from_os() for _ in range(64)]:
        for stream in three(randomness):
            state: Any = stream.bit_generator.state
            keys.append([int(word) for word in state["state"]["keysetup"]])
            assert not any(str(word) in repr(randomness) for word in keys[-1] if word > 999)
    bits = np.unpackbits(np.array(keys, dtype=np.uint32).view(np.uint8), axis=1)
    assert bits.shape == (192, 256)
    assert len(np.unique(bits, axis=0)) == 192
    assert 0 < bits.sum(axis=0).min() <= bits.sum(axis=0).max() < 192


def test_normals_have_the_standard_law_and_a_slightly_other_one_is_noticed() -> None:
    drawn = streams.normals(Randomness.experiment(5).features, 200_000)
    assert stats.kstest(drawn, "norm").pvalue > 1e-3
    for scale, shift in ((1.04, 0.0), (0.96, 0.0), (1.0, 0.03)):
        assert stats.kstest(drawn, stats.norm(shift, scale).cdf).pvalue < 1e-6
