"""The listening side: sockets, sessions, the protocol and the supervision of the engine process.
Never sees a tensor.
"""
