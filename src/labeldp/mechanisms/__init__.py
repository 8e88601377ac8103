"""The mechanisms; each is one folder, of its name, and knows no other.

A folder's front page declares the mechanism (`protocol.Mechanism`); `registry` knows which
folders there are. In each: `claim` (what is promised, and what `verify` checks of it), `plan` (from
features alone), `run` (the one pass over labels), `account` (the price, without data). What they
are made with stands in `workbench`; beside them only what declarations are made of (`options`),
what `labeldp account` says of all (`account`), and the form of certificates (`structure`,
`certificate_form`). Other rooms import from this page alone.
"""
