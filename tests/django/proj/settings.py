"""Settings of the project, by the environment:

`DJANGO_DB`: the URL of its database, `sqlite:///path` or `postgresql://user:password@host:port/name`; else SQLite in
memory. `DJANGO_DRIVER`: psycopg2, psycopg, or mysql, which lets PyMySQL stand for mysqlclient. `DJANGO_TEST`: JSON, the
`TEST` of that database. `DJANGO_EXTRA`: JSON with settings that go over these.
"""

import json
import os
import sys
from urllib.parse import unquote, urlsplit

if os.environ.get("DJANGO_DRIVER") == "psycopg2":
    sys.modules["psycopg"] = None  # type: ignore[assignment]  # Django takes psycopg 3 where there is one

if os.environ.get("DJANGO_DRIVER") == "mysql":
    import pymysql

    pymysql.version_info = (2, 2, 7, "final", 0)  # Django asks for that of mysqlclient
    pymysql.install_as_MySQLdb()


def _database(url: str) -> dict[str, object]:
    parts = urlsplit(url)
    if parts.scheme.startswith("sqlite"):
        return {"ENGINE": "django.db.backends.sqlite3", "NAME": unquote(parts.path[1:]) or ":memory:"}
    kind = "mysql" if parts.scheme.startswith(("mysql", "mariadb")) else "postgresql"
    return {
        "ENGINE": f"django.db.backends.{kind}",
        "NAME": unquote(parts.path[1:]),
        "HOST": parts.hostname or "",
        "PORT": str(parts.port or ""),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
    }


SECRET_KEY = "not secret"  # noqa: S105
DEBUG = True
ALLOWED_HOSTS = ["*"]
ROOT_URLCONF = "proj.urls"
WSGI_APPLICATION = "proj.wsgi.application"
ASGI_APPLICATION = "proj.asgi.application"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
STATIC_URL = "static/"
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_celery_beat",
    "contrib_django",
    "shop",
]
MIDDLEWARE = [
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
DATABASES = {"default": _database(os.environ.get("DJANGO_DB", "sqlite://"))}
DATABASES["default"]["TEST"] = json.loads(os.environ.get("DJANGO_TEST", "{}"))
CELERY_BROKER_URL = "memory://"
CELERY_SAGA_DATABASE = "default"

globals().update(json.loads(os.environ.get("DJANGO_EXTRA", "{}")))
