"""Processes of this machine behind the classes by which pytest-celery knows its containers."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

from pytest_celery import CeleryTestContainer, CeleryWorkerContainer, RabbitMQContainer, RedisContainer

from celery_saga.testing.servers import PrivatePostgres, PrivateServer

EXEC_TIMEOUT_S = 60.0
HERE = "127.0.0.1"


class LocalContainer(CeleryTestContainer):
    """What a node asks of its container, done to a process: its life, its log, commands beside it.

    Args:
        server: started already.
    """

    def __init__(self, server: PrivateServer) -> None:
        self.server = server
        self._id = uuid4().hex

    @property
    def id(self) -> str:
        """As long as a container's; the host name in a worker's name is its beginning."""
        return self._id

    @property
    def name(self) -> str:
        """Of the program and its process."""
        return f"{self.server.program}-{self._id[:12]}"

    @property
    def status(self) -> str:
        """`running` or `exited`."""
        return "running" if self.server.is_running else "exited"

    @property
    def attrs(self) -> dict[str, Any]:
        """What Docker would tell, as far as a process has it."""
        return {"Id": self._id, "Config": {"Hostname": self.hostname}, "State": {"Status": self.status}}

    @property
    def env(self) -> dict[str, str]:
        """Environment variables of the process."""
        return self.server.environment()

    @property
    def hostname(self) -> str:
        """Where others find it."""
        return HERE

    @property
    def port(self) -> int:
        """Of the machine; nothing is mapped."""
        return self.server.port

    @property
    def host_url(self) -> str:
        """The same for the tests as for the nodes."""
        return str(self.url)

    def ready(self) -> bool:
        """Whether it runs: it was ready when it was started."""
        return self.server.is_running

    def reload(self) -> None:
        """Nothing to do: what is told is always fresh."""

    def kill(self, signal: str | int | None = None) -> None:
        """A signal to the process alone, as Docker sends it to the first process; SIGKILL also to all below it."""
        which = _signal(signal)
        if which is _KILL:
            self.server.kill()
        else:
            self.server.send(which)

    def restart(self, timeout: float = 10.0) -> None:
        """End it in an orderly way, or bury it, and start it on the same port; return when it is ready."""
        self.server.stop()
        self.server.start()

    def logs(self) -> str:
        """All lines since its first start."""
        return "\n".join(self.server.lines)

    def exec_run(self, cmd: str | Sequence[str], **_: Any) -> tuple[int, bytes]:
        """Run a command in the directory and the environment of the process; code, and what it printed."""
        words = shlex.split(cmd) if isinstance(cmd, str) else list(cmd)
        done = subprocess.run(
            [sys.executable, *words[1:]] if words[0] == "python" else words,
            cwd=self.server.directory,
            env=self.server.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=EXEC_TIMEOUT_S,
            check=False,
        )
        return done.returncode, done.stdout

    def get_files(self, path: str) -> dict[str, bytes | None]:
        """Files under a path of its directory, by their names from there; None for a directory."""
        top = self.server.directory / path.lstrip("/")
        found = [top, *sorted(top.rglob("*"))] if top.is_dir() else [top]
        return {str(each.relative_to(top.parent)): None if each.is_dir() else each.read_bytes() for each in found}


_KILL = signal.SIGKILL


def _signal(which: str | int | None) -> signal.Signals:
    if which is None:
        return _KILL
    return signal.Signals[which] if isinstance(which, str) else signal.Signals(which)


class LocalRedis(LocalContainer, RedisContainer):
    """A Redis of one test, broker or result backend."""

    @property
    def url(self) -> str:
        """Database 0."""
        return f"{self.prefix()}{HERE}:{self.port}/{self.vhost}"


class LocalRabbit(LocalContainer, RabbitMQContainer):
    """A RabbitMQ, user guest, vhost `/`."""

    @property
    def url(self) -> str:
        """With its port, which is not the usual one."""
        return f"{self.prefix()}guest:guest@{HERE}:{self.port}/{self.vhost}"


class LocalPostgres(LocalContainer):
    """A database on a PostgreSQL.

    Args:
        server: started already.
        database: its name there.
    """

    server: PrivatePostgres

    def __init__(self, server: PrivatePostgres, database: str) -> None:
        super().__init__(server)
        self.database = database

    @property
    def url(self) -> str:
        """For `saga_database_url`."""
        return self.server.url_of(self.database)

    @property
    def celeryconfig(self) -> dict[str, Any]:
        """As of a broker or a result backend."""
        return {
            "url": self.url,
            "host_url": self.host_url,
            "hostname": self.hostname,
            "port": self.port,
            "vhost": self.database,
        }


class WorkerProcess(PrivateServer):
    """`celery worker` in a directory that has the project's modules.

    Args:
        words: its command line; `%h` in it becomes `host`.
        environment: of the worker, added to the present one.
        content: files for its directory by their names, which comes first on its path; then comes that of the tests.
        host: of its name.
    """

    program = "celery"
    ready_line = " ready."
    kept_lines = None

    def __init__(
        self, words: Sequence[str], environment: Mapping[str, str], content: Mapping[str, bytes], host: str
    ) -> None:
        super().__init__()
        self._words = [word.replace("%h", host) for word in words]
        self._environment = dict(environment)
        for name, text in content.items():
            file = self.directory / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(text)

    @property
    def url(self) -> str:
        """A worker has none."""
        raise NotImplementedError

    def command(self) -> list[str]:
        """With the interpreter of the tests."""
        program, *words = self._words
        return [sys.executable, "-m", "celery", *words] if program == "celery" else self._words

    def environment(self) -> dict[str, str]:
        """The path is where the project is: first the worker's files, then all that the tests can import."""
        path = [str(self.directory), *(str(Path(entry or ".").resolve()) for entry in sys.path)]
        return {**os.environ, **self._environment, "PYTHONPATH": os.pathsep.join(path)}


class LocalWorker(LocalContainer, CeleryWorkerContainer):
    """A worker process; its class attributes and its own class may be those of a project.

    Args:
        server: started already.
        host: as in its name.
    """

    def __init__(self, server: PrivateServer, host: str) -> None:
        super().__init__(server)
        self._id = host.ljust(12, "0")
