"""A cluster of pytest-celery: broker, result backend, database and worker as nodes that die and come back."""
