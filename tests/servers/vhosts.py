"""Vhosts of one's own on the shared RabbitMQ: made and deleted several at a time, for each call of its tool is slow."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

import pytest

from tests.servers.shared import unique_name

RABBITMQCTL_TIMEOUT_S = 60.0
AT_ONCE = 6
"""Made by one call; as many are deleted by the next."""

_MAKE = """
Make = fun(Name) ->
    rabbit_vhost:add(Name, <<"tests">>),
    rabbit_auth_backend_internal:set_permissions({user}, Name, <<".*">>, <<".*">>, <<".*">>, <<"tests">>)
end,
"""
_CHANGE = """
[catch rabbit_vhost:delete(Name, <<"tests">>) || Name <- [{used}]],
[Make(Name) || Name <- [{fresh}]],
changed.
"""


@dataclass
class Vhosts:
    """The vhosts of this process: some ready to be used, some used, which are deleted with the next call."""

    pid: int = field(default_factory=os.getpid)
    ready: list[str] = field(default_factory=list)
    used: list[str] = field(default_factory=list)

    def take(self, server: str) -> str:
        """The name of an empty vhost in which the user of the URL `server` may do everything."""
        if not self.ready:
            fresh = [unique_name() for _ in range(AT_ONCE)]
            self._change(fresh, unquote(urlsplit(server).username or "guest"))
            self.ready = fresh
        return self.ready.pop()

    def done(self, name: str) -> None:
        """Nobody uses the vhost any more; it is deleted with others, at the latest when the process ends."""
        self.used.append(name)

    def close(self) -> None:
        """Delete all of them now; the next one is made anew."""
        if self.pid != os.getpid():  # a fork of a test process owns none
            return
        self.used += self.ready
        self.ready = []
        if self.used:
            self._change([], "guest")

    def _change(self, fresh: list[str], user: str) -> None:
        if shutil.which("rabbitmqctl") is None:
            pytest.fail("RabbitMQ answers, but rabbitmqctl, which makes the vhost, is not on the PATH")
        make = _MAKE.format(user=_binary(user))
        change = _CHANGE.format(used=", ".join(map(_binary, self.used)), fresh=", ".join(map(_binary, fresh)))
        done = subprocess.run(
            ["rabbitmqctl", "--quiet", "eval", make + change],
            capture_output=True,
            text=True,
            timeout=RABBITMQCTL_TIMEOUT_S,
            check=False,
        )
        if done.returncode or done.stdout.strip() != "changed":
            raise RuntimeError(f"rabbitmqctl eval ended with {done.returncode}: {done.stdout}{done.stderr}")
        self.used = []


def _binary(text: str) -> str:
    """The text as a term of Erlang."""
    return '<<"' + text.replace("\\", "\\\\").replace('"', '\\"') + '">>'


VHOSTS = Vhosts()
"""Those of this process."""

atexit.register(VHOSTS.close)
