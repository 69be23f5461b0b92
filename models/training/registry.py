"""Who the default voice speaks as, and the names that clients hard-code for them."""

from models.spec import SpeakerSpec

# of OpenAI's and Orpheus's voices, the nearer speaker for each
_FEMALE_NAMES = "alloy coral fable nova sage shimmer marin tara leah jess mia zoe female"
_MALE_NAMES = "ash ballad echo onyx verse cedar leo dan zac male"


def default_speakers(reference_hz: tuple[float, ...]) -> tuple[SpeakerSpec, ...]:
    """The speakers of a voice that was made with the defaults, one per reference pitch."""
    heart = SpeakerSpec(
        id="heart",
        aliases=tuple(_FEMALE_NAMES.split()),
        description="A warm American woman.",
        gender="female",
        language="en-US",
        licence="Apache-2.0",
        teacher="hibari 0.2.1, heart",
        reference_hz=reference_hz[0],
    )
    if len(reference_hz) == 1:
        return (heart,)
    michael = SpeakerSpec(
        id="michael",
        aliases=tuple(_MALE_NAMES.split()),
        description="A calm American man.",
        gender="male",
        language="en-US",
        licence="Apache-2.0",
        teacher="Kokoro-82M v1.0, am_michael",
        reference_hz=reference_hz[1],
    )
    return heart, michael
