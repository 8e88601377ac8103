"""What `labeldp look` finds in a table before a release.

look       reads the table, puts the answer together for programs and people, and names the
           options of a release
columns    kind, range, outliers and strange values of every column; ids that repeat
label      for the curator only: missing labels, copies of the label, what costs privacy
"""
