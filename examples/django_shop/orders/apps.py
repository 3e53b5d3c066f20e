"""The application."""

from django.apps import AppConfig


class OrdersConfig(AppConfig):
    """Orders and products."""

    name = "orders"
