"""A Django project in one file, with django-celery-beat, its admin and sagas; configured where this is imported.

`DJANGO_URL` names its database, SQLite in memory unless given; `SHOP_SETTINGS` has settings of its Celery app.
"""

from __future__ import annotations

import json
import os
from typing import Any

import django
from celery import Celery
from django.conf import settings
from sqlalchemy import make_url

url = make_url(os.environ.get("DJANGO_URL", "sqlite://"))
_PARTS = {"NAME": url.database or ":memory:", "HOST": url.host, "PORT": url.port, "USER": url.username}
_TEMPLATES = "django.template.backends.django.DjangoTemplates"
_PROCESSORS = ("django.contrib.auth.context_processors.auth", "django.contrib.messages.context_processors.messages")
_PROCESSORS = ("django.template.context_processors.request", *_PROCESSORS)
settings.configure(
    SECRET_KEY="not secret",
    INSTALLED_APPS=[
        *("django.contrib.admin", "django.contrib.auth", "django.contrib.contenttypes"),
        *("django.contrib.sessions", "django.contrib.messages", "django_celery_beat", "contrib_django"),
    ],
    MIDDLEWARE=[
        "django.contrib.sessions.middleware.SessionMiddleware",
        "django.contrib.auth.middleware.AuthenticationMiddleware",
        "django.contrib.messages.middleware.MessageMiddleware",
    ],
    TEMPLATES=[{"BACKEND": _TEMPLATES, "APP_DIRS": True, "OPTIONS": {"context_processors": list(_PROCESSORS)}}],
    DATABASES={
        "default": {
            "ENGINE": f"django.db.backends.{'sqlite3' if url.get_backend_name() == 'sqlite' else 'postgresql'}",
            **{name: str(value or "") for name, value in _PARTS.items()},
        }
    },
    ROOT_URLCONF="tests.schedules.django_urls",
    ALLOWED_HOSTS=["*"],
    DEFAULT_AUTO_FIELD="django.db.models.AutoField",
    USE_TZ=True,
)
django.setup()

from celery_saga import CelerySaga, Run, saga  # noqa: E402 - Django is configured now

app = Celery("schedules_site", set_as_current=True)
app.conf.update(json.loads(os.environ.get("SHOP_SETTINGS", "{}")))
if app.conf.get("saga_database_url"):
    CelerySaga(app)


@saga(name="schedules_site_tick")
def tick(run: Run, text: str = "") -> Any:
    """Ends at once."""
    return text
