from celery import Celery
from celery_saga import CelerySaga

app = Celery("shop")
app.config_from_object("shop.settings")
app.autodiscover_tasks(["shop.orders", "shop.payments"])
CelerySaga(app)
