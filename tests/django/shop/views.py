"""The order page."""

from django.http import HttpRequest, JsonResponse
from django.views.decorators.csrf import csrf_exempt
from shop.models import Order
from shop.sagas import checkout


@csrf_exempt
def orders(request: HttpRequest) -> JsonResponse:
    """POST item and cents: an order whose checkout has begun."""
    order = Order.objects.create(item=request.POST["item"], cents=int(request.POST["cents"]))
    run = checkout.start(order.pk, order.cents)
    return JsonResponse({"order": order.pk, "run": run.id})
