"""Work done ahead by threads, answers in order, few of them waiting: memory stays bounded."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Answer = TypeVar("Answer")


def cores() -> int:
    """How many this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def in_order(
    work: Callable[[Item], Answer], items: Iterable[Item], threads: int
) -> Generator[Answer, None, None]:
    """work(item) for every item, in their order; one thread means the caller's own.

    At most `threads` + 1 answers are under way or waiting. However the loop over them is left
    (an error in `work` or in the loop, an interrupt), no thread outlives it if it is closed.
    """
    if threads <= 1:
        yield from map(work, items)
        return
    pool = ThreadPoolExecutor(threads, thread_name_prefix="labeldp")
    try:
        coming: deque[Future[Answer]] = deque()
        for item in items:
            coming.append(pool.submit(work, item))
            if len(coming) > threads:
                yield coming.popleft().result()
        while coming:
            yield coming.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
