"""The codec's decoder: streamed is one-shot, and streams do not touch each other."""

import msgspec
import pytest
import torch

from models.codec.decoder import CodecDecoder
from models.codec.quantizer import pack_codes, unpack_codes
from models.spec import CodecSpec

SPEC = CodecSpec(
    trunk_size=32,
    trunk_hidden_size=48,
    trunk_dilations=(1, 2),
    fine_size=24,
    fine_hidden_size=32,
    fine_dilations=(1, 4),
)
# the matrix products of a chunk of another length round differently in float32; an int16 step is
# 3e-5
TOLERANCE = 1.5e-5


@pytest.fixture(scope="module")
def decoder() -> CodecDecoder:
    torch.manual_seed(0)
    made = CodecDecoder(SPEC).eval().requires_grad_(False)
    made.codebooks.vectors.normal_(0.0, 0.5)
    for head in (made.trunk.harmonic, made.trunk.noise, made.trunk.pitch):
        head.weight.normal_(0.0, 0.05)
    return made


def random_codes(batch: int, frames: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(
        0, SPEC.codebook_size, (batch, frames, SPEC.tokens_per_frame), generator=generator
    )


@pytest.mark.parametrize("chunks", [(1,) * 9, (9,), (2, 3, 4), (4, 1, 4), (8, 1), (1, 8)])
def test_streamed_equals_one_shot(decoder: CodecDecoder, chunks: tuple[int, ...]) -> None:
    codes = random_codes(2, sum(chunks))
    whole = decoder.decode(codes)
    state, parts = decoder.new_state(2), []
    for part in codes.split(list(chunks), 1):
        samples, state = decoder(part, state)
        parts.append(samples)
    streamed = torch.cat(parts, 1)
    assert streamed.shape == whole.shape == (2, sum(chunks) * SPEC.samples_per_frame)
    assert whole.abs().max() > 1e-3
    torch.testing.assert_close(streamed, whole, rtol=0, atol=TOLERANCE)


def test_a_stream_sounds_the_same_in_any_company(decoder: CodecDecoder) -> None:
    codes = random_codes(5, 4)
    together = decoder.decode(codes)
    for row in range(5):
        torch.testing.assert_close(
            decoder.decode(codes[row : row + 1])[0], together[row], rtol=0, atol=TOLERANCE
        )


def test_noise_depends_on_the_offset_alone(decoder: CodecDecoder) -> None:
    codes = random_codes(1, 3)
    assert torch.equal(decoder.decode(codes), decoder.decode(codes))


def test_slots_keep_their_streams_when_gathered_and_scattered(decoder: CodecDecoder) -> None:
    codes = random_codes(3, 4)
    whole = decoder.decode(codes)
    slots = decoder.new_state(6)
    rows = torch.tensor([4, 0, 3])
    first, part = decoder(codes[:, :1], slots.gather(rows))
    slots.scatter(rows, part)
    other, part = decoder(random_codes(1, 2, seed=9), slots.gather(torch.tensor([1])))
    slots.scatter(torch.tensor([1]), part)
    later, _ = decoder(codes[:, 1:], slots.gather(rows))
    torch.testing.assert_close(torch.cat([first, later], 1), whole, rtol=0, atol=TOLERANCE)
    assert other.shape == (1, 2 * SPEC.samples_per_frame)


def test_a_scattered_fresh_row_forgets_its_predecessor(decoder: CodecDecoder) -> None:
    codes = random_codes(1, 2)
    slots = decoder.new_state(2)
    _, part = decoder(random_codes(1, 5, seed=3), slots.gather(torch.tensor([1])))
    slots.scatter(torch.tensor([1]), part)
    slots.scatter(torch.tensor([1]), decoder.new_state(1))
    samples, _ = decoder(codes, slots.gather(torch.tensor([1])))
    assert torch.equal(samples, decoder.decode(codes))


def test_the_state_given_is_not_changed(decoder: CodecDecoder) -> None:
    state = decoder.new_state(1)
    decoder(random_codes(1, 2), state)
    assert int(state.hops) == 0
    assert float(state.overlap.abs().max()) == 0.0


def test_samples_stay_in_range(decoder: CodecDecoder) -> None:
    loud = CodecDecoder(SPEC).eval().requires_grad_(False)
    loud.load_state_dict(decoder.state_dict())
    loud.trunk.noise.bias.fill_(6.0)
    samples = loud.decode(random_codes(1, 2))
    assert samples.abs().max() == 1.0


def test_codes_pack_into_frames_and_back() -> None:
    levels = [torch.arange(3)[None], torch.arange(6)[None] + 10, torch.arange(12)[None] + 100]
    frames = pack_codes(levels, SPEC)
    assert frames[0, 0].tolist() == [0, 10, 100, 101, 11, 102, 103]
    assert all(torch.equal(a, b) for a, b in zip(unpack_codes(frames, SPEC), levels, strict=True))


@pytest.fixture(scope="module")
def two_speakers(decoder: CodecDecoder) -> CodecDecoder:
    made = CodecDecoder(msgspec.structs.replace(SPEC, speaker_hz=(110.0,)))
    made.load_state_dict(decoder.state_dict(), strict=False)
    generator = torch.Generator().manual_seed(1)
    for table in made.trunk.speakers.tables:
        assert isinstance(table, torch.nn.Embedding)
        with torch.no_grad():
            table.weight[1].normal_(0.0, 0.5, generator=generator)
    return made.eval().requires_grad_(False)


def test_the_first_speaker_is_what_it_was_before_there_was_a_second(
    decoder: CodecDecoder, two_speakers: CodecDecoder
) -> None:
    codes = random_codes(2, 3)
    assert torch.equal(two_speakers.decode(codes), decoder.decode(codes))


def test_each_row_speaks_with_its_own_voice(two_speakers: CodecDecoder) -> None:
    codes = random_codes(1, 4).expand(3, -1, -1)
    together = two_speakers.decode(codes, torch.tensor([1, 0, 1]))
    for row, speaker in enumerate((1, 0, 1)):
        alone = two_speakers.decode(codes[:1], speaker)[0]
        torch.testing.assert_close(alone, together[row], rtol=0, atol=TOLERANCE)
    assert (together[0] - together[1]).abs().max() > 1e-3


def test_a_slot_keeps_its_speaker_until_it_is_given_another(two_speakers: CodecDecoder) -> None:
    codes, row = random_codes(1, 3), torch.tensor([1])
    slots = two_speakers.new_state(2)
    slots.scatter(row, two_speakers.new_state(1, 1))
    parts = []
    for part in codes.split(1, 1):
        samples, state = two_speakers(part, slots.gather(row))
        slots.scatter(row, state)
        parts.append(samples)
    torch.testing.assert_close(
        torch.cat(parts, 1), two_speakers.decode(codes, 1), rtol=0, atol=TOLERANCE
    )
    slots.scatter(row, two_speakers.new_state(1))
    samples, _ = two_speakers(codes, slots.gather(row))
    assert torch.equal(samples, two_speakers.decode(codes, 0))
