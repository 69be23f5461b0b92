"""The `realtime` command: one file a command, and what the commands share."""
