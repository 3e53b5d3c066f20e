"""The admin, and the HTTP API."""

from django.contrib import admin
from django.urls import include, path

urlpatterns = [path("admin/", admin.site.urls), path("sagas/", include("contrib_django.urls"))]
