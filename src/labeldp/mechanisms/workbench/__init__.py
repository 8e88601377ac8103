"""The workbench: what mechanisms are made with, on one page, for those here and for others.

It is slow to import. What a declaration is made of (`labeldp.mechanisms`) is not.
"""

from labeldp.common import late_names

late_names(__name__)
