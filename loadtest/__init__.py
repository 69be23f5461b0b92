"""Black-box callers of a running service: load, and word error rate. Knows the wire format only."""
