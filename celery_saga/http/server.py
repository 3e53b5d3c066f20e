"""Serves a WSGI application by the standard library: for a look, not for the world."""

from __future__ import annotations

import logging
import signal
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from socketserver import TCPServer, ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

__all__ = ["serving"]

logger = logging.getLogger("celery_saga.http")

_LINGER_S, _LINGER_BYTES = 2.0, 64 * 1024 * 1024

Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


class _Handler(WSGIRequestHandler):
    timeout = 30  # seconds without a byte of the request

    def log_message(self, format: str, *args: Any) -> None:
        """To our log and not to stderr; without paths, which may hold tokens."""
        logger.debug("%s answered", self.address_string())


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    allow_reuse_address = True

    def server_bind(self) -> None:
        """Bind without asking the name service who we are, which may take seconds."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.setup_environ()

    def shutdown_request(self, request: Any) -> None:
        """Let the client finish what it sends, so that it reads an answer that did not wait for the whole body."""
        with suppress(OSError):
            request.shutdown(socket.SHUT_WR)
            request.settimeout(_LINGER_S)
            left = _LINGER_BYTES
            while left > 0 and (part := request.recv(65536)):
                left -= len(part)
        self.close_request(request)


@contextmanager
def serving(application: Application, host: str, port: int) -> Iterator[tuple[str, threading.Event]]:
    """A server that answers for as long as the block lasts; to be entered in the main thread.

    Args:
        port: 0: any that is free.
    Returns:
        Its URL, and what is set by SIGTERM and SIGINT, which end nothing by themselves within the block.
    Raises:
        OSError: it cannot listen there.
    """
    server = _Server((host, port), _Handler)
    server.set_app(application)
    shown = f"[{host}]" if ":" in host else host
    told = threading.Event()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
    before = {number: signal.signal(number, lambda *_: told.set()) for number in (signal.SIGTERM, signal.SIGINT)}
    thread.start()
    try:
        yield f"http://{shown}:{server.server_port}", told
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
        for number, handler in before.items():
            signal.signal(number, handler)
