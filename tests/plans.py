"""`plan` for tests: their tables are small, so that many a plan could not beat the constant."""

from __future__ import annotations

from functools import partial, update_wrapper

import labeldp

plan = update_wrapper(partial(labeldp.plan, force=True), labeldp.plan)
