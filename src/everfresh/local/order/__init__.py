"""What is read in order: ordered indexes with prefix sums, ranges, extremes, nearest values, thresholds."""
