"""The HTTP API under Django's users and permissions: `path("sagas/", include("contrib_django.urls"))`."""

from __future__ import annotations

from contrib_django.guarded import guarded_urls

urlpatterns = guarded_urls()
