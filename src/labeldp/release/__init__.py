"""The published thing: its claim, its certificate, its files.

Other rooms import from this page alone.
"""

from labeldp.common import late_names

late_names(__name__)
