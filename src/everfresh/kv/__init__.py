"""Key-value views: SQL views over key-value stores, strongly consistent, kept fresh from the store's log.

Chapters 4 to 6 of the thesis on key-value views; docs/key-value-views.md is for users, and
docs/design/key-value.md has the decisions. Importing this loads no store's client library.
"""
