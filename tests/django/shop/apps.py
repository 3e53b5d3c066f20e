"""The shop."""

from django.apps import AppConfig


class ShopConfig(AppConfig):
    """A shop with orders and stock."""

    name = "shop"
    default_auto_field = "django.db.models.BigAutoField"
