"""Random streams: ChaCha20 keyed by the operating system for releases, seeded for experiments.

A release is drawn from ChaCha20 keyed by the operating system, because the published
aggregates show enough of the stream to find a small seed, and a known stream gives the
labels away. Three independent streams are keyed at once: one for what does not depend on
labels, one for the first 64 bits of every number that does, one for the rare draws that
need more bits. So the label-free part of a release is the same whatever the labels are.

Many aggregates are drawn block by block, and every block has streams of its own: the same keys
with the block's number as ChaCha's nonce. They are as independent as one stream is of itself
further on, and a block is the same whichever thread draws it, and when.

`Randomness.experiment(seed)` exists for tests and experiments; its certificate says that it
is not private, and `verify` refuses it.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.errors import InputError

KEY_BITS = 256
GENERATOR = "ChaCha20"


class Randomness:
    """Three streams for one release; `private` only when the operating system keyed them.

    Two releases from the same streams would differ by little but their labels, so one object
    serves one release, in the process that made it, and cannot be copied.
    """

    def __init__(
        self,
        features: np.random.Generator,
        labels: np.random.Generator,
        refinement: np.random.Generator,
        *,
        private: bool,
    ) -> None:
        self.features, self.labels, self.refinement = features, labels, refinement
        self.private = private
        self._process: int | None = os.getpid()

    def __repr__(self) -> str:
        return f"Randomness(generator={GENERATOR!r}, private={self.private})"

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a generator holds its key and must not be copied to another process")

    def spend(self) -> None:
        """Mark the streams as used; refuse a second use, or one in a forked process."""
        if self._process != os.getpid():
            raise InputError(
                "this Randomness was used before or comes from another process; "
                "a release needs one of its own: leave `randomness` out"
            )
        self._process = None

    def block(self, place: int) -> Randomness:
        """Return the streams of one block; block 0 goes on with these streams themselves."""
        if place == 0:
            return self
        streams = []
        for stream in (self.features, self.labels, self.refinement):
            state: Any = stream.bit_generator.state
            words32 = enumerate(state["state"]["keysetup"])  # the key, in words of 32 bits
            key = sum(int(word) << 32 * number for number, word in words32)
            streams.append(_stream(key, nonce=place))
        block = Randomness(*streams, private=self.private)
        block._process = None  # part of a release that was spent already
        return block

    @classmethod
    def from_os(cls) -> Randomness:
        """Return fresh streams, keyed with 256 bits each from the operating system."""
        first, second, third = (_stream(secrets.randbits(KEY_BITS)) for _ in range(3))
        return cls(first, second, third, private=True)

    @classmethod
    def experiment(cls, seed: int) -> Randomness:
        """Return repeatable streams for tests and experiments: never private."""
        first, second, third = (_stream(_key(f"experiment {seed} {place}")) for place in range(3))
        return cls(first, second, third, private=False)


def public_stream(seed: str, purpose: str) -> np.random.Generator:
    """Return a stream that anyone can repeat from a published seed; no label may depend on it."""
    return _stream(_key(f"public {purpose} {seed}"))


def fresh_seed() -> str:
    """Return 256 bits from the operating system, as text."""
    return secrets.token_hex(KEY_BITS // 8)


def words(stream: np.random.Generator, count: int) -> NDArray[np.uint64]:
    """Return `count` uniform 64-bit words."""
    return stream.integers(0, 2**64, size=count, dtype=np.uint64)


def normals(stream: np.random.Generator, count: int) -> NDArray[np.float64]:
    """Return standard normals by inversion: the same on every machine, but for rounding."""
    from scipy.special import ndtri

    uniform = (words(stream, count) + 0.5) * 2.0**-64
    return np.asarray(ndtri(np.minimum(uniform, 1 - 2.0**-53)))  # the last words round to 1


def _stream(key: int, nonce: int = 0) -> np.random.Generator:
    """ChaCha20; randomgen counts 32-bit words, sixteen to each of a nonce's 2**64 blocks."""
    from randomgen import ChaCha

    return np.random.Generator(ChaCha(key=key, counter=nonce << 68, rounds=20))


def _key(text: str) -> int:
    """Return a key that anyone can repeat who knows the text."""
    return int.from_bytes(hashlib.sha256(f"labeldp {text}".encode()).digest(), "big")
