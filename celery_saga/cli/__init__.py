"""The command line: `celery -A proj saga ...` and, with the same commands, `celery-saga -A proj ...`."""
