"""Old weights in a model with more ids and speakers."""

import pytest
import torch

from models.codec.decoder import CodecDecoder
from models.language_model import LanguageModel, dense_causal_attend
from models.spec import CodecSpec
from models.training.growth import grow
from tests.models.test_spec import model_spec


def test_a_grown_language_model_says_what_it_said() -> None:
    torch.manual_seed(0)
    small = LanguageModel(model_spec(tie_embeddings=False, vocab_size=79))
    large = LanguageModel(
        model_spec(tie_embeddings=False, vocab_size=84, num_speakers=2, control_base_id=79)
    )
    large.load_state_dict(grow(small.state_dict(), large))
    ids, positions = torch.tensor([[20, 1, 2, 21]]), torch.arange(4)[None]
    expected = small(ids, positions, dense_causal_attend)
    assert torch.equal(large(ids, positions, dense_causal_attend), expected)
    assert torch.equal(large.head(expected, 0, 79), small.head(expected, 0, 79))
    assert bool((large.model.embed_tokens.weight[79:] != 0).any())


def test_a_decoder_with_a_new_speaker_starts_as_the_old_one() -> None:
    torch.manual_seed(0)
    one = CodecDecoder(CodecSpec(trunk_size=32, trunk_hidden_size=32, fine_size=16))
    two = CodecDecoder(
        CodecSpec(trunk_size=32, trunk_hidden_size=32, fine_size=16, speaker_hz=(190.0,))
    )
    two.load_state_dict(grow(one.state_dict(), two))
    codes = torch.randint(0, 512, (1, 2, 7))
    assert torch.equal(two.decode(codes, 1), one.decode(codes))


def test_another_shape_is_refused_by_name() -> None:
    narrow, wide = torch.nn.Linear(2, 3), torch.nn.Linear(4, 3)
    with pytest.raises(ValueError, match="weight has shape"):
        grow(narrow.state_dict(), wide)
