"""Orders, and what is in stock."""

from django.db import models


class Order(models.Model):
    """An order."""

    item = models.CharField(max_length=50)
    cents = models.PositiveIntegerField(default=0)
    status = models.CharField(max_length=20, default="new")

    def __str__(self) -> str:
        return f"order {self.pk}"


class Stock(models.Model):
    """How many of an item there are."""

    item = models.CharField(max_length=50, unique=True)
    left = models.IntegerField(default=0)

    def __str__(self) -> str:
        return f"{self.left} {self.item}"
