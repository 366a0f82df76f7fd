"""The operators of a pipeline: state in columns over groups, one call of a kernel for all groups of a
step."""
