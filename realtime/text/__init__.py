"""Text front end: a growing text -> segments with phonemes and their span in the caller's text.

Synchronous and free of torch; the gateway runs it in a worker thread. Start reading at
`realtime.text.segment`.
"""
