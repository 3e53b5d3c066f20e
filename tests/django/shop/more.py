"""A saga that no `sagas.py` has, for `CELERY_SAGA_SAGAS`."""

from celery_saga import Run, saga


@saga(name="djshop_nightly")
def nightly(run: Run) -> str:
    """Ends at once."""
    return run.id
