"""Products on the shelf and somebody who may use the admin, so that there is something to look at."""

from django.contrib.auth.models import User
from django.core.management.base import BaseCommand

from orders.models import Product

SHELF = (("Kettle", 3_900, 12), ("Teapot", 5_500, 3), ("Espresso machine", 64_900, 5))


class Command(BaseCommand):
    """May be called again: what is there stays as it is."""

    help = "Put products on the shelf, and make the user admin with the password admin"

    def handle(self, *args, **options):
        """Make what is missing."""
        for name, cents, stock in SHELF:
            Product.objects.get_or_create(name=name, defaults={"cents": cents, "stock": stock})
        if not User.objects.filter(username="admin").exists():
            User.objects.create_superuser("admin", password="admin")
