"""The bazaar."""

from django.apps import AppConfig


class BazaarConfig(AppConfig):
    """Sagas without models."""

    name = "bazaar"
