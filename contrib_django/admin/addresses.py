"""Addresses of pages in the site that a request came to: a project may have several admin sites."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.urls import reverse

__all__ = ["address", "address_of_run"]


def address(request: HttpRequest, name: str, *args: Any) -> str:
    """Of a page of the admin, by its name.

    Args:
        request: whose `current_app` is the name of the site, as `RunAdmin` has set it.
        name: as Django's own, like `index`, or one of ours.
    """
    return str(reverse(f"admin:{name}", args=args, current_app=getattr(request, "current_app", None)))


def address_of_run(request: HttpRequest, run_id: str) -> str:
    """Of the page of a run."""
    return address(request, "celery_saga_run_change", run_id)
