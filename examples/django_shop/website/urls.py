"""Pages of the shop, the admin, and the runs over HTTP."""

from django.contrib import admin
from django.urls import include, path

urlpatterns = [
    path("admin/", admin.site.urls),
    path("sagas/", include("contrib_django.urls")),
    path("", include("orders.urls")),
]
