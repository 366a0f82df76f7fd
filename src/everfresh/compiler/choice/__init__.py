"""Which program is best: estimates of sizes, the cost of a program (section 3.6.4), the search over
decisions.
"""
