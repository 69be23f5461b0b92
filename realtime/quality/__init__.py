"""How good the speech of a service is: spoken over the public protocol, heard by other models.

`realtime quality` runs it. `measurement.py` is the order of events: `speaking.py` has lines spoken
and kept, `judging.py` listens to each with the judges that are installed, `figures.py` adds them
up with intervals, `results.py` is what is kept and `page.py` what is read. A long text in one
context goes the same way through `long_text.py`. Knows the client and the wire format and nothing
of the service behind them; the packages of the `judge` extra are imported where they are first
needed.
"""
