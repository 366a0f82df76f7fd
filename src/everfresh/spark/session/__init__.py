"""The Spark session: started or taken, watched, its errors told."""
