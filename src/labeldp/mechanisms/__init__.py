"""The mechanisms; each is one folder, of its name, and knows no other.

A folder's front page declares the mechanism (`protocol.Mechanism`); `registry` knows which
folders there are. In each: `claim` (what is promised, and what `verify` checks of it), `plan` (from
features alone), `run` (the one pass over labels), `account` (the price, without data). What they
share stands beside them: this page is quick to import, `workbench` is not. Other rooms import
from this page alone, and what is slow to import comes when it is first used.
"""

from labeldp.common import late_names

late_names(__name__)
