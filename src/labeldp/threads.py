"""Threads: how many may be used, and a map over items that keeps their order."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

_MOST_THREADS = 1024


def thread_count(wanted: int = 0) -> int:
    """Return the number of threads to use; 0 asks for one for each core of this process."""
    if wanted:
        return min(wanted, _MOST_THREADS)
    has_affinity = hasattr(os, "sched_getaffinity")  # of a container, fewer than the machine
    return len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1


def map_in_order(
    work: Callable[[Item], Result], items: Iterable[Item], threads: int
) -> Generator[Result, None, None]:
    """Yield work(item) for every item, in order; with one thread in the caller's own.

    At most `threads` + 1 answers are computed ahead, so that memory stays bounded. No thread
    outlives the generator once it is closed, however the loop over it ends (an error in `work` or
    in the loop, an interrupt).
    """
    if threads <= 1:
        yield from map(work, items)
        return
    pool = ThreadPoolExecutor(threads, thread_name_prefix="labeldp")
    try:
        pending: deque[Future[Result]] = deque()
        for item in items:
            pending.append(pool.submit(work, item))
            if len(pending) > threads:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
