"""Count the same shelves both ways, and tell how long each took and how many messages its steps were."""

import sys
import time

from shop import by_messages, inline

SHELVES = int(sys.argv[1])

for saga in (by_messages, inline):
    begun_s = time.monotonic()
    run = saga.start(SHELVES)
    result = run.wait(120)
    took_s = time.monotonic() - begun_s
    messages = sum(step.sends > 0 for step in run.steps())
    print(f"{run.saga}: {result}, {messages} messages")
    print(f"{took_s:.1f} s", file=sys.stderr)
