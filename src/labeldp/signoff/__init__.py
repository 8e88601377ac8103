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
