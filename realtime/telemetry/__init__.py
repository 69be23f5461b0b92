"""Logs, metrics and the time stamps of a request. Knows no messages and no sockets."""
