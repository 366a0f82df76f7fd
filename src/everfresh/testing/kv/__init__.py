"""What decides whether key-value views were consistent, and what drives their protocol through faults.

- `histories`  what a history records: base writes, reads of views, commits
- `levels`     small histories, by search: convergence, weak, strong, complete
- `decodable`  long histories whose values tell what they are made of, exactly and fast
- `witness`    histories whose reads say which cut of the logs they show: prefix consistency
- `smaller`    a minimal history that still fails
"""
