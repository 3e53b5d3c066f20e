"""The API inside a FastAPI application: `uvicorn with_fastapi:site`."""

import os

from celery_saga.http import Request, asgi
from fastapi import FastAPI

from shop import app

KEYS = dict(pair.split("=", 1) for pair in os.environ.get("SHOP_API_KEYS", "").split(",") if pair)
MAY = {"ann": {"read", "start", "signal", "retry", "cancel"}, "bob": {"read"}}


def authorizer(action: str, run: object, request: Request) -> str | bool:
    """The key tells who it is; the name goes into the history of what they do."""
    name = KEYS.get(request.headers.get("x-api-key", ""))
    return name if name is not None and action in MAY.get(name, ()) else False


site = FastAPI()
site.mount("/sagas", asgi(app, authorizer))


@site.get("/")
def home() -> dict[str, str]:
    return {"sagas": "/sagas/openapi.json"}
