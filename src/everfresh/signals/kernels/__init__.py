"""The compiled loops of signals: each advances every group of a batch in one call."""
