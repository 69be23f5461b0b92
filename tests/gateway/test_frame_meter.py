"""Frames are told apart however their bytes arrive."""

from hypothesis import given
from hypothesis import strategies as st
from websockets.frames import Frame, Opcode

from realtime.gateway.frame_meter import FrameMeter

PAYLOADS = st.sampled_from([0, 1, 5, 125, 126, 127, 200, 65535, 65536, 70000]).map(bytes)


@given(st.lists(st.tuples(PAYLOADS, st.booleans()), max_size=6), st.lists(st.integers(1, 70_000)))
def test_frame_ends_are_found_in_any_split(frames, sizes):
    sent = [Frame(Opcode.BINARY, data).serialize(mask=mask) for data, mask in frames]
    ends, total = set(), 0
    for frame in sent:
        total += len(frame)
        ends.add(total)
    data, meter, position, taken_ends = b"".join(sent), FrameMeter(), 0, []
    while position < total:
        arrived = data[position : position + (sizes.pop() if sizes else total)]
        while arrived:
            size = meter.take(arrived)
            assert 0 < size <= len(arrived)
            position += size
            arrived = arrived[size:]
            taken_ends.append(position)
            crossed = [end for end in ends if position - size < end < position]
            assert not crossed, "bytes of two frames taken as one"
    assert ends <= {*taken_ends, 0}
