"""Products and orders in the admin; an order that waits for a person is approved or refused there."""

from celery_saga.errors import SagaError
from django.contrib import admin, messages

from orders.models import Order, Product
from orders.sagas import APPROVAL, checkout


@admin.register(Product)
class ProductAdmin(admin.ModelAdmin):
    """What is on the shelf."""

    list_display = ("name", "cents", "stock")


@admin.register(Order)
class OrderAdmin(admin.ModelAdmin):
    """Orders, the newest first."""

    list_display = ("__str__", "product", "quantity", "email", "status", "parcel")
    list_filter = ("status",)
    readonly_fields = ("status", "parcel")
    ordering = ("-pk",)
    actions = ("approve", "refuse")

    @admin.action(description="Approve the selected orders")
    def approve(self, request, queryset):
        """Let them be shipped."""
        self._answer(request, queryset, True)

    @admin.action(description="Refuse the selected orders")
    def refuse(self, request, queryset):
        """Let everything done for them be undone."""
        self._answer(request, queryset, False)

    def _answer(self, request, queryset, is_approved):
        for order in queryset:
            try:
                # One answer for an order: a second click is the same signal, and changes nothing.
                checkout.find(key=f"order-{order.pk}").signal(APPROVAL, is_approved, id="answer")
            except SagaError as error:
                self.message_user(request, f"{order}: {error}", messages.ERROR)
            else:
                self.message_user(request, f"{order}: {'approved' if is_approved else 'refused'}")
