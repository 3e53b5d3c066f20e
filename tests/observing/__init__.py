"""What others see of runs: records of the log, traces and metrics."""
