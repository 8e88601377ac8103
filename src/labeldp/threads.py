"""Work done ahead by threads, answers in order, few of them waiting: memory stays bounded."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


_ROOM = 1000
"""MB of addresses for each thread, where they are limited."""


def workers(wanted: int = 0) -> int:
    """So many threads (0: one for each core that this process may use), as far as there is room.

    OpenBLAS takes room for each thread that computes, and ends the process where it gets none: no
    error could be caught.
    """
    limit, wanted = addresses(), wanted or _cores()
    return wanted if limit is None else max(1, min(wanted, limit // _ROOM))


def addresses() -> int | None:
    """MB of addresses that this process may use; None: no limit was set (ulimit -v, -d)."""
    try:
        import resource
    except ImportError:  # not on this system
        return None
    limits = [resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA)]
    set_ones = [limit for limit in limits if limit != resource.RLIM_INFINITY]
    return min(set_ones) // 10**6 if set_ones else None


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def in_order(
    work: Callable[[Item], Result], items: Iterable[Item], threads: int
) -> Generator[Result, None, None]:
    """work(item) for every item, in their order; one thread means the caller's own.

    At most `threads` + 1 answers are under way or waiting. However the loop over them is left
    (an error in `work` or in the loop, an interrupt), no thread outlives it if it is closed.
    """
    if threads <= 1:
        yield from map(work, items)
        return
    pool = ThreadPoolExecutor(threads, thread_name_prefix="labeldp")
    try:
        coming: deque[Future[Result]] = deque()
        for item in items:
            coming.append(pool.submit(work, item))
            if len(coming) > threads:
                yield coming.popleft().result()
        while coming:
            yield coming.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
