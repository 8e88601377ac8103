"""Numbers recorded from the code as it was, which later code must give again to the last digit.

    inside.py            every name below labeldp's front page: after a move, edit this file alone
    tables.py            a dozen generated tables
    cases_tables.py      feature maps, exact sums, ranks and leverages of those tables
    cases_accounting.py  every accountant's answers over grids of questions
    cases_command.py     what `labeldp account --json` and `labeldp plan --json` print
    cases_plans.py       plans, and the claimed fields of their certificates
    cases_releases.py    releases drawn with experiment randomness
    record.py            how a case is computed and kept; the command that records
    values/              what was recorded, one JSON file for each kind of case

`python -m tests.golden.record` records what has no file yet; see its help.
"""
