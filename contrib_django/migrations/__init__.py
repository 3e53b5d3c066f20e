"""Django's migrations of the saga tables: one for each part of the library's own in `celery_saga.store.migrations`."""
