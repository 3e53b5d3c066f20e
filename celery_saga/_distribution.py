"""Refuses to run beside the other distribution that installs the import name `celery_saga`."""

from __future__ import annotations

from importlib import metadata

OURS = "celery-durable-saga"
OTHER = "celery-saga"


def refuse_the_other_distribution() -> None:
    """Make sure that `celery-saga`, which writes into the same package directory, is not installed.

    Costs one look at the names in each directory of `sys.path`; reads a file only on a conflict.

    Raises:
        ImportError: `celery-saga` is installed, in whatever version. Files of the two may be
            mixed, so nothing of this package has been imported; nothing was changed.
    """
    try:
        version = metadata.version(OTHER)
    except metadata.PackageNotFoundError:
        return
    raise ImportError(
        f"celery_saga: the distribution {OTHER!r} ({version}) is installed beside {OURS!r}; both "
        "install the import name 'celery_saga' and overwrite each other's files, so nothing was "
        f"imported. Run: pip uninstall {OTHER}; then, because that removes shared files: "
        f"pip install --force-reinstall --no-deps {OURS}",
        name="celery_saga",
    )
