"""The tests; `tests.servers` says which real servers they use and how they reach them."""
