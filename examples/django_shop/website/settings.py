"""Settings of the shop. The environment may name other servers: SHOP_DATABASE_URL, SHOP_BROKER_URL."""

import os
from pathlib import Path
from urllib.parse import unquote, urlsplit

_database = urlsplit(os.environ.get("SHOP_DATABASE_URL", "postgresql://postgres@127.0.0.1:5432/django_shop"))

BASE_DIR = Path(__file__).resolve().parent.parent
SECRET_KEY = "for a look at the example, never for the internet"
DEBUG = True
ALLOWED_HOSTS = ["127.0.0.1", "localhost"]
ROOT_URLCONF = "website.urls"
WSGI_APPLICATION = "website.wsgi.application"
LANGUAGE_CODE = "en"
TIME_ZONE = "Europe/Berlin"
USE_TZ = True
STATIC_URL = "static/"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_celery_beat",
    "contrib_django",
    "orders",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(_database.path[1:]),
        "USER": unquote(_database.username or ""),
        "PASSWORD": unquote(_database.password or ""),
        "HOST": _database.hostname or "127.0.0.1",
        "PORT": _database.port or 5432,
    }
}

CELERY_BROKER_URL = os.environ.get("SHOP_BROKER_URL", "amqp://guest:guest@127.0.0.1:5672//")
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_TRANSPORT_OPTIONS = {"confirm_publish": True}
CELERY_BEAT_SCHEDULER = "django_celery_beat.schedulers:DatabaseScheduler"
CELERY_TIMEZONE = TIME_ZONE

CELERY_SAGA_DATABASE = "default"  # runs commit and roll back with the shop's own rows
CELERY_SAGA_SCHEDULES = {
    "nightly": {"saga": "restock", "cron": "30 2 * * *"},
}
