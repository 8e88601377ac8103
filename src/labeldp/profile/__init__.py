"""What `labeldp look` finds in a table before a release.

look        reads the table and puts the answer together
columns     kind, range and outliers of every column
relations   duplicate rows, rows of one person, columns that follow from others
label       for the curator only: missing labels, copies of the label, what costs privacy
advice      sentences for people, and the options of a release
page        the answer as an HTML page
"""
