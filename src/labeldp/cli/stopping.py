"""A command that is stopped cleans up first and says what it leaves behind.

Ctrl-C, `kill` and a terminal that hangs up all unwind the command, so that what was half written,
or drawn, is removed. SIGKILL and a lost machine cannot be waited for: what they leave is for its
owner alone, and the next run finds it (see `labeldp.io_util`).
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from labeldp.io_util import written

_SIGNALS = [
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
]


@dataclass
class Stop:
    """Whether a command was stopped, by which signal, and what the code that it left has to say."""

    signal: int = signal.SIGINT
    interrupt: KeyboardInterrupt = field(default_factory=KeyboardInterrupt)
    before: int = field(default_factory=lambda: len(written))
    """Targets that were written by earlier commands of this process."""

    @property
    def code(self) -> int:
        """As a shell has it."""
        return 128 + self.signal

    def told(self) -> str:
        """What is there now, in one line."""
        done = [str(path) for path in written[self.before :] if path.exists()]
        what = f"{' and '.join(done)} was written before that" if done else "nothing was written"
        return "; ".join(["stopped", what, *getattr(self.interrupt, "__notes__", ())])


@contextmanager
def stoppable() -> Iterator[Stop]:
    """Turn the signals into an interrupt, once; those that nobody waits for stay ignored."""
    stop, before = Stop(), dict[int, Any]()

    def unwind(number: int, _frame: Any) -> None:
        for each in before:
            signal.signal(each, signal.SIG_IGN)
        stop.signal = number
        raise stop.interrupt

    if threading.current_thread() is threading.main_thread():
        handlers = {number: signal.getsignal(number) for number in _SIGNALS}
        before |= {n: old for n, old in handlers.items() if old not in (signal.SIG_IGN, None)}
    try:
        for number in before:
            signal.signal(number, unwind)
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
