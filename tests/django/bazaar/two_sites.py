"""A second admin site, which has the runs too."""

from django.contrib import admin
from django.urls import path

from contrib_django.admin import RunAdmin
from contrib_django.models import Run

ops = admin.AdminSite("ops")
ops.register(Run, RunAdmin)
urlpatterns = [path("admin/", admin.site.urls), path("ops/", ops.urls)]
