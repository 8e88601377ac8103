"""What releases cost together, and the file that remembers it.

compose      several releases together: one privacy profile, for a row or for a person (theory §13)
fingerprint  which table it is: keyed digests of its public columns and person ids
chain        the append-only file of a ledger
ledger       debits before labels are read; which count together, and how their runs ended
"""
