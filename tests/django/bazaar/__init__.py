"""A bazaar with every kind of run, for the tests and the pictures of the admin; see `scenes.py`."""
