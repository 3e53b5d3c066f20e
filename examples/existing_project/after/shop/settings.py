import os

broker_url = os.environ.get("SHOP_BROKER_URL", "redis://127.0.0.1:6379/0")
result_backend = os.environ.get("SHOP_RESULT_URL")
broker_connection_retry_on_startup = True

task_routes = {
    "shop.orders.*": {"queue": "orders"},
    "shop.payments.*": {"queue": "payments"},
}
task_acks_late = True
task_time_limit = 300

saga_database_url = os.environ.get("SHOP_DATABASE_URL", "postgresql://postgres@127.0.0.1/shop")
saga_sagas = ["shop.orders.sagas:checkout"]
saga_queue = "orders"
