"""One policy for randomness.

A release is drawn from ChaCha20 keyed by the operating system, because the published
aggregates show enough of the stream to find a small seed, and a known stream gives the
labels away. Three independent streams are keyed at once: one for what does not depend on
labels, one for the first 64 bits of every number that does, one for the rare draws that
need more bits. So the label-free part of a release is the same whatever the labels are.

`Randomness.experiment(seed)` exists for tests and experiments; what it draws is marked
as not private and no certificate is issued for it.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

KEY_BITS = 256
GENERATOR = "ChaCha20"


@dataclass(frozen=True)
class Randomness:
    """Three streams; `private` is true only when the operating system keyed them.

    The keys are not fields: nothing that is printed, stored or compared shows them.
    """

    features: np.random.Generator
    labels: np.random.Generator
    refinement: np.random.Generator
    private: bool

    def __repr__(self) -> str:
        return f"Randomness(generator={GENERATOR!r}, private={self.private})"

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a generator holds its key and must not be copied to another process")

    @classmethod
    def from_os(cls) -> Randomness:
        """Fresh streams keyed with 256 bits each from the operating system."""
        first, second, third = (_stream(secrets.randbits(KEY_BITS)) for _ in range(3))
        return cls(first, second, third, private=True)

    @classmethod
    def experiment(cls, seed: int) -> Randomness:
        """Repeatable streams for tests and experiments: never private."""
        first, second, third = (_stream(_derived(seed, place)) for place in range(3))
        return cls(first, second, third, private=False)


def words(stream: np.random.Generator, count: int) -> NDArray[np.uint64]:
    """`count` uniform 64-bit words."""
    return stream.integers(0, 2**64, size=count, dtype=np.uint64)


def _stream(key: int) -> np.random.Generator:
    from randomgen import ChaCha

    return np.random.Generator(ChaCha(key=key, rounds=20))


def _derived(seed: int, place: int) -> int:
    digest = hashlib.sha256(f"labeldp experiment {seed} {place}".encode()).digest()
    return int.from_bytes(digest, "big")
