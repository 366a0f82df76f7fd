"""The rows of a batch as they are given: DataFrames, files, change feeds; laid down where tasks read them."""
