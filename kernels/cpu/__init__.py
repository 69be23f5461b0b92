"""Row-invariant decoder kernels for CPUs: C++ compiled on first use, called through ctypes.

Every output row is computed from its own inputs, in an order of operations that does not
depend on the other rows: batched and alone, chunked and whole, preempted and uninterrupted are
bit-equal by construction. ``linear.h`` and ``attention.h`` say how.
"""
