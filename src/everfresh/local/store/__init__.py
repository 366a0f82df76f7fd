"""Where rows and entries lie: pools with their hash index, words for values, strings, tables, maps, slices.

From the bottom: `arena` and `pool`; `strings`, `kept_strings` and `codec` between values and words; `slices`;
`table` and `entries`, which are pools that know what is in them; `reclaim` and `growth` watch their memory.
"""
