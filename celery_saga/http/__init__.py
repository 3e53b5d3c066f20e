"""Runs over HTTP: one API without a framework, mounted by WSGI, by ASGI, or in Django."""

from __future__ import annotations

from celery_saga.http.access import ACTIONS, Action, Authorizer
from celery_saga.http.api import Api
from celery_saga.http.asgi_mount import AsgiApp, asgi
from celery_saga.http.messages import Request, Response
from celery_saga.http.wsgi_mount import WsgiApp, wsgi

__all__ = ["ACTIONS", "Action", "Api", "AsgiApp", "Authorizer", "Request", "Response", "WsgiApp", "asgi", "wsgi"]
