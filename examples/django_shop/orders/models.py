"""Products and orders."""

from django.core.validators import MinValueValidator
from django.db import models


class Product(models.Model):
    """Something on the shelf."""

    name = models.CharField(max_length=100, unique=True)
    cents = models.PositiveIntegerField()
    stock = models.PositiveIntegerField(default=0)

    def __str__(self) -> str:
        return self.name


class Order(models.Model):
    """What somebody wants. `status` is told by the saga; how far it is exactly, the run itself tells."""

    product = models.ForeignKey(Product, on_delete=models.PROTECT)
    quantity = models.PositiveIntegerField(default=1, validators=[MinValueValidator(1)])
    email = models.EmailField()
    card = models.CharField(max_length=19)
    status = models.CharField(max_length=20, default="new")
    parcel = models.CharField(max_length=40, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"order {self.pk}"

    @property
    def cents(self) -> int:
        """What it costs."""
        return self.product.cents * self.quantity
