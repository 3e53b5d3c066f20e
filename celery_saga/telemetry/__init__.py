"""Traces and metrics by OpenTelemetry, where the process has set it up; else nothing, at no cost."""
