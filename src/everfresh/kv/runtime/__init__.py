"""What runs key-value views: SQL programs as dataflows, and the protocol in one process."""
