"""What whoever answers for a release needs beside it.

verification  what follows from public files alone, recomputed
joint         several releases together: one curve, for a row or for a person (theory §13)
loss          a curve as a privacy loss in points, for the accountants of others
ledger        what was spent on every table, and how much may be
chain         the file it stands in, which only grows
identity      which table it is: a keyed digest of public features
report        a release on a page or two
auditing      attempts to break a claim, with made-up labels (neighbours, evidence)
signing       keys, and signatures over all files of a release

Other rooms import from this page alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from labeldp.common import late_names

if TYPE_CHECKING:
    from labeldp.signoff.auditing import Audit, audit
    from labeldp.signoff.describe import describe
    from labeldp.signoff.joint import Joint, compose
    from labeldp.signoff.ledger import Ledger
    from labeldp.signoff.report import plan_report, release_report
    from labeldp.signoff.report_page import page
    from labeldp.signoff.signing import PublicKey, make_key, sign
    from labeldp.signoff.verification import Verification, verify

__all__ = [
    "Audit",
    "Joint",
    "Ledger",
    "PublicKey",
    "Verification",
    "audit",
    "compose",
    "describe",
    "make_key",
    "page",
    "plan_report",
    "release_report",
    "sign",
    "verify",
]

late_names(
    __name__,
    auditing="Audit audit",
    describe="describe",
    joint="Joint compose",
    ledger="Ledger",
    report="plan_report release_report",
    report_page="page",
    signing="PublicKey make_key sign",
    verification="Verification verify",
)
