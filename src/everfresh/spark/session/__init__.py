"""The Spark session: started or taken, watched, its errors told; clusters of this machine for tests."""
