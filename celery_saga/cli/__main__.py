"""`python -m celery_saga.cli`: the program `celery-saga` where it is not on the path."""

from __future__ import annotations

from celery_saga.cli.standalone import main

main()
