"""The API behind any WSGI server: `gunicorn plain_wsgi`."""

import hmac
import os

from celery_saga.http import Request, wsgi

from shop import app

KEY = os.environ.get("SHOP_API_KEY", "")


def authorizer(action: str, run: object, request: Request) -> bool:
    """Whoever has the key may do everything."""
    given = request.headers.get("authorization", "")
    return bool(KEY) and hmac.compare_digest(given.encode(), f"Bearer {KEY}".encode())


application = wsgi(app, authorizer)
