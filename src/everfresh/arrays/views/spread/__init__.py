"""Views of arrays whose chunks are kept by workers: what metadata decide, and what a worker does.

stored      the groups of a view as chunks of an array that nobody sees
meeting     a batch, or a view that is made, as chunks that have to meet (catalogs alone)
planning    where they meet, and what is kept where from then on: `everfresh.arrays.upkeep` for one view
worker      what a worker finds in the chunks that it was given, and how a view's chunk takes it
logical     all of it in one process, worker by worker: the twin of the jobs on Spark
"""
