"""A private RabbitMQ node with an Erlang port mapper of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from celery_saga.testing.servers.process import STOP_TIMEOUT_S, PrivateServer, free_port, missing

CTL_TIMEOUT_S = 60.0
SCRIPTS = Path("/usr/lib/rabbitmq/bin")  # Debian's wrappers on the PATH insist on the user rabbitmq


class PrivateRabbit(PrivateServer):
    """One node on ports of its own; guest/guest, vhost `/`. Ready after 10 to 30 s.

    Args:
        config: lines for `rabbitmq.conf`, such as `consumer_timeout = 4000`.
    """

    program = "rabbitmq-server"
    ready_line = "completed with"
    start_timeout_s = 120.0

    def __init__(self, config: str = "") -> None:
        super().__init__()
        self._node = f"saga{self.port}@localhost"
        self._distribution_port = free_port()
        self._epmd_port = free_port()
        self._epmd: subprocess.Popen[bytes] | None = None
        (self.directory / "rabbitmq.conf").write_text(
            f"listeners.tcp.1 = 127.0.0.1:{self.port}\n"
            "log.console = true\n"
            "log.console.level = info\n"
            "log.file = false\n"
            f"{config}\n"
        )
        (self.directory / "plugins").write_text("[].\n")
        (self.directory / "environment").write_text("")

    @property
    def url(self) -> str:
        """For `broker_url`; vhost `/`."""
        return f"amqp://guest:guest@127.0.0.1:{self.port}//"

    def environment(self) -> dict[str, str]:
        """Nothing of the machine's own node: home (the Erlang cookie), files, ports."""
        here = str(self.directory)
        return {
            "PATH": os.environ.get("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"),
            "LANG": "C.UTF-8",
            "HOME": here,
            "RABBITMQ_NODENAME": self._node,
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(self._distribution_port),
            "ERL_EPMD_PORT": str(self._epmd_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
            "RABBITMQ_CONF_ENV_FILE": f"{here}/environment",
            "RABBITMQ_MNESIA_BASE": f"{here}/mnesia",
            "RABBITMQ_LOG_BASE": f"{here}/log",
            "RABBITMQ_PID_FILE": f"{here}/pid",
            "RABBITMQ_CONFIG_FILE": f"{here}/rabbitmq",
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{here}/plugins",
        }

    def command(self) -> list[str]:
        """The node in the foreground; first its port mapper, which would else stay behind."""
        self._start_port_mapper()
        return [_script("rabbitmq-server")]

    def ctl(self, *words: str) -> str:
        """What `rabbitmqctl` with these words prints for this node.

        Raises:
            RuntimeError: it ended with another code than 0.
        """
        done = subprocess.run(
            [_script("rabbitmqctl"), "--quiet", *words],
            capture_output=True,
            text=True,
            timeout=CTL_TIMEOUT_S,
            check=False,
            env=self.environment(),
            cwd=self.directory,
        )
        if done.returncode:
            raise RuntimeError(f"rabbitmqctl {words!r}: {done.stdout}{done.stderr}")
        return done.stdout

    def _start_port_mapper(self) -> None:
        if self._epmd is not None:
            return
        program = shutil.which("epmd") or missing("epmd")
        self._epmd = subprocess.Popen(
            [program, "-address", "127.0.0.1", "-port", str(self._epmd_port)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def remove(self) -> None:
        """The node, its directory and its port mapper."""
        super().remove()
        if self._epmd is not None:
            self._epmd.kill()
            self._epmd.wait(timeout=STOP_TIMEOUT_S)
            self._epmd = None


def _script(name: str) -> str:
    place = SCRIPTS / name
    return str(place) if place.exists() else shutil.which(name) or missing(name)
