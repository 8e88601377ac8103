"""The report of a release or a plan: a page or two to read, print and sign.

document   what the report says, as a dict: a function of the certificate alone
risk       what the privacy curve means for a person, in chances
page       the dict as one HTML file, by the templates beside it
"""
