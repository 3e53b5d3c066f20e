"""Commands of `manage.py`, each by the name of its module."""
