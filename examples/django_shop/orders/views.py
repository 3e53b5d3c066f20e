"""The shop window, and the page of an order."""

from celery_saga.errors import RunNotFound
from django import forms
from django.db import transaction
from django.shortcuts import get_object_or_404, redirect, render

from orders.models import Order, Product
from orders.sagas import checkout

WORDS = {"done": "done", "running": "going on", "scheduled": "about to begin", "waiting": "waiting", "failed": "failed"}


class OrderForm(forms.ModelForm):
    """What a customer fills in."""

    class Meta:
        model = Order
        fields = ("product", "quantity", "email", "card")


def window(request):
    """Products, and a form to order one."""
    form = OrderForm(request.POST or None, initial={"quantity": 1, "card": "4000 0000 0000 0001"})
    if form.is_valid():
        with transaction.atomic():  # the order and its run are there together, or neither is
            order = form.save()
            checkout.start(order.pk, order.card, order.cents)
        return redirect("order", order.pk)
    products = Product.objects.order_by("name")
    return render(request, "orders/window.html", {"form": form, "products": products})


def order(request, order_id):
    """How far an order is: the run's own steps, told to the customer."""
    found = get_object_or_404(Order.objects.select_related("product"), pk=order_id)
    run = checkout.find(key=f"order-{found.pk}")
    try:
        steps = [(step.key, WORDS.get(step.status, step.status)) for step in run.steps()]
        status = run.status
    except RunNotFound:
        steps, status = [], None
    words = {"order": found, "steps": steps, "status": status, "goes_on": status is not None and not status.is_end}
    return render(request, "orders/order.html", words)
