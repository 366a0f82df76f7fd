"""What benchmarks are made of: workloads, and measurements that run in a process of their own."""
