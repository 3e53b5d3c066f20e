"""The API in a Django project, here in one file: `python with_django.py runserver`."""

import os
import sys

import django
from celery_saga.http import Request
from django.conf import settings
from django.core.management import execute_from_command_line
from django.core.wsgi import get_wsgi_application
from django.urls import include, path

from shop import DATABASE_URL, app

settings.configure(
    SECRET_KEY=os.environ.get("SHOP_SECRET", "only for this example"),
    DEBUG=False,
    ALLOWED_HOSTS=["*"],
    ROOT_URLCONF=__name__,
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "django.contrib.sessions", "contrib_django"],
    MIDDLEWARE=[
        "django.contrib.sessions.middleware.SessionMiddleware",
        "django.middleware.csrf.CsrfViewMiddleware",
        "django.contrib.auth.middleware.AuthenticationMiddleware",
    ],
    DATABASES={
        "default": {"ENGINE": "django.db.backends.sqlite3", "NAME": os.environ.get("SHOP_DJANGO_DB", "site.db")}
    },
    CELERY_SAGA_DATABASE_URL=DATABASE_URL,  # Django's side has to know as well where runs are kept
)
django.setup()

from contrib_django.api import urls  # noqa: E402 - Django has to be set up first


def authorizer(action: str, run: object, request: Request) -> str | bool:
    """Staff may do everything; the name goes into the history."""
    user = request.user
    return user.get_username() if user.is_authenticated and user.is_staff else False


urlpatterns = [path("sagas/", include(urls(app, authorizer)))]
application = get_wsgi_application()

if __name__ == "__main__":
    execute_from_command_line(sys.argv)
