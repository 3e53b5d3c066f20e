from celery import Celery

app = Celery("shop")
app.config_from_object("shop.settings")
app.autodiscover_tasks(["shop.orders", "shop.payments"])
