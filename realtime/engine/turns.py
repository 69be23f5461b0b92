"""When refused callers should come back: each is named a later turn, so that those who obey do not
all return for one place. Knows keys and instants only.
"""

from collections import OrderedDict

import msgspec

LONGEST_PROMISE_S = 120.0
_SOONEST_S = 0.1
_MOST_STRETCH = 8.0  # returning callers get at least this share of the places: an eighth
_REFUSED_STEP, _STARTED_STEP = 1.03, 1.003  # at rest with one refusal for ten starts
_MOST_KEYS = 1024


class _KeyTurns(msgspec.Struct):
    """The last turn that was named to a key, and how far apart its turns are."""

    until: float
    stretch: float = 1.0


class Turns:
    """Turns a key, interleaved with those of the other keys that were told to come back.

    Someone who is refused again and again, because it does not wait for its turn, only puts off the
    turns of its own key. New callers take places too, and nobody knows how many will come: a key's
    turns are stretched while its refusals are frequent, and drawn together again by its starts.
    """

    def __init__(self) -> None:
        self._keys: OrderedDict[str, _KeyTurns] = OrderedDict()

    def next(self, key: str, wait_s: float, apart_s: float, now: float) -> float:
        """Name a turn.

        Args:
            key: Whose caller is refused.
            wait_s: When a place becomes free, at the earliest, in seconds from now.
            apart_s: How often places become free.
            now: The instant.

        Returns:
            Seconds from now.
        """
        num_others = self._num_active(now, besides=key)
        turns = self._keys.get(key)
        if turns is None:
            turns = self._keys[key] = _KeyTurns(until=now)
        turns.stretch = min(_MOST_STRETCH, turns.stretch * _REFUSED_STEP ** (1 + num_others))
        apart_s *= turns.stretch
        if turns.until > now:
            at = max(now + wait_s, turns.until + apart_s * (1 + num_others))
        else:
            at = now + wait_s + apart_s * num_others
        after_s = min(max(_SOONEST_S, at - now), LONGEST_PROMISE_S)
        turns.until = now + after_s
        self._keys.move_to_end(key)
        if len(self._keys) > _MOST_KEYS:
            self._keys.popitem(last=False)
        return after_s

    def note_start(self, key: str, now: float) -> None:
        """A caller of this key got its place."""
        turns = self._keys.get(key)
        if turns is not None:
            step = _STARTED_STEP ** (1 + self._num_active(now, besides=key))
            turns.stretch = max(1.0, turns.stretch / step)

    def _num_active(self, now: float, besides: str) -> int:
        """Other keys with a turn that is still to come."""
        return sum(turns.until > now for key, turns in self._keys.items() if key != besides)
