"""Starts the whole shop from the servers of this machine: database, tables, things on the shelf, then all processes.

`python start.py`; Ctrl-C stops everything. The processes are those of the Procfile.
"""

import os
import subprocess
import sys
from pathlib import Path

import psycopg2
from honcho.environ import parse_procfile
from honcho.manager import Manager

from website import settings

HERE = Path(__file__).resolve().parent


def make_database() -> None:
    """Create the shop's database where it is missing."""
    own = settings.DATABASES["default"]
    where = {"host": own["HOST"], "port": own["PORT"], "user": own["USER"], "password": own["PASSWORD"]}
    server = psycopg2.connect(dbname="postgres", **where)
    server.autocommit = True
    with server.cursor() as cursor:
        cursor.execute("SELECT 1 FROM pg_database WHERE datname = %s", [own["NAME"]])
        if cursor.fetchone() is None:
            cursor.execute(f'CREATE DATABASE "{own["NAME"]}"')
    server.close()


def main() -> int:
    """Prepare, then run until one process ends or Ctrl-C comes; the exit code of the first that ended."""
    os.chdir(HERE)
    make_database()
    for words in (["migrate"], ["furnish"], ["check", "--database", "default"]):
        subprocess.run([sys.executable, "manage.py", *words], check=True)
    manager = Manager()
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    for name, command in parse_procfile((HERE / "Procfile").read_text()).processes.items():
        manager.add_process(name, command, env=environment, cwd=str(HERE))
    print(f"shop: http://{os.environ.get('SHOP_WEB', '127.0.0.1:8000')}/  admin: /admin/ (admin, admin)", flush=True)
    manager.loop()
    return int(manager.returncode or 0)


if __name__ == "__main__":
    sys.exit(main())
