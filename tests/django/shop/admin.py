"""Orders in the admin."""

from django.contrib import admin
from shop.models import Order, Stock

admin.site.register(Order)
admin.site.register(Stock)
