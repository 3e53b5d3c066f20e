"""Random sagas while everything around them is killed, stopped, flushed and cut: `python -m tests.chaos --help`."""
