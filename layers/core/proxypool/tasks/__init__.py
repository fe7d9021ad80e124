"""Runs of the functions: log lines and results, retries of messages, the skeletons of the handlers."""
