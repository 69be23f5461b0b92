"""The generation loop: one process a device, one thread that owns scheduler and runner."""
