"""Pages of the shop."""

from django.urls import path

from orders import views

urlpatterns = [
    path("", views.window, name="window"),
    path("orders/<int:order_id>/", views.order, name="order"),
]
