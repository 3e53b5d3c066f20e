"""A shop whose checkout is a saga, on Celery with neither broker nor database server: what `celery-saga demo` shows."""
