"""Many processes that start or signal runs at once; forked from one that has loaded everything.

`python -m tests.faults.crowd_member COMMAND SIZE ARGUMENT...` prints one line as JSON for each thing done.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable

from celery_saga import CelerySaga, SagaError
from tests.faults import app as faults_app
from tests.faults.phases import plain, told
from tests.faults.sagas import GO


def tell(**words: object) -> None:
    """One line, written at once, so that lines of several processes do not mix."""
    os.write(1, (json.dumps({"pid": os.getpid(), **words}) + "\n").encode())


def start(number: int, times: str) -> None:
    """Start so many runs, each under a key of its own."""
    for n in range(int(times)):
        begun_s = time.monotonic()
        run = plain.start(f"crowd{number}.{n}")
        tell(run=run.id, took_s=time.monotonic() - begun_s)


def signal(number: int, run_id: str, signal_id: str) -> None:
    """Send the signal, under one id for all where that is not empty."""
    try:
        answer: str = told.get(run_id).signal(GO, f"word {number}", id=signal_id or None)
    except SagaError as error:
        answer = error.code
    tell(number=number, answer=answer)


COMMANDS: dict[str, Callable[..., None]] = {"start": start, "signal": signal}


def main(command: str, size: str, *arguments: str) -> None:
    """Fork, let each process connect, and let all begin at the same moment: when standard input ends."""
    ready_read, ready_write = os.pipe()
    children = []
    for number in range(int(size)):
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                CelerySaga.of(faults_app.app).store.now()
                os.write(ready_write, b"!")
                sys.stdin.buffer.read()
                COMMANDS[command](number, *arguments)
                code = 0
            finally:
                os._exit(code)
        children.append(pid)
    connected = b""
    while len(connected) < int(size):
        connected += os.read(ready_read, int(size))
    tell(ready=True)
    for pid in children:
        os.waitpid(pid, 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
