"""The Django project of these tests; as Celery's guide has it, it imports its Celery app.

`DJANGO_WITHOUT_CELERY`: it forgets to.
"""

import os

if not os.environ.get("DJANGO_WITHOUT_CELERY"):
    from proj.celery import app as celery_app

    __all__ = ["celery_app"]
