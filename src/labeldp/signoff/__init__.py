"""What whoever answers for a release needs beside it.

verification  what follows from public files alone, recomputed
auditing      attempts to break a claim, with made-up labels (neighbours, evidence)
signing       keys, and signatures over all files of a release
"""
