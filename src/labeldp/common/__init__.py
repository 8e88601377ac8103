"""What every room may use, imported when first used, so that to take one tool loads no other.

arguments  of the kind that their hints say
arrow      Arrow's numbers and words
cards      how values show themselves
files      that appear whole, and JSON that is as it should be
front      front pages such as this one
pictures   the style of every picture
threads    several at once, in order

Other rooms import from this page alone.
"""
