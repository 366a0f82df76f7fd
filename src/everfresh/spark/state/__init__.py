"""The state of a database on Spark: the ledger of the driver, the units of the workers, snapshots beside
batches.
"""
