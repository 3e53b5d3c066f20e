from celery import shared_task

from shop import outside


class GatewayTimeout(Exception):
    pass


@shared_task(bind=True, max_retries=3)
def charge(self, key, cents):
    """Take the money, once for each key. The gateway does not answer the first time when it is 13 cents."""
    outside.note("charge", key, cents)
    try:
        if cents == 13 and outside.times("charge", key, cents) == 1:
            raise GatewayTimeout("no answer")
    except GatewayTimeout as error:
        raise self.retry(exc=error, countdown=0.1) from error
    return f"charge-{cents}"


@shared_task(autoretry_for=(GatewayTimeout,), retry_backoff=True, retry_backoff_max=60, max_retries=5)
def refund(charge_id):
    """Give the money back. The gateway does not answer the first time."""
    outside.note("refund", charge_id)
    if outside.times("refund", charge_id) == 1:
        raise GatewayTimeout("no answer")
