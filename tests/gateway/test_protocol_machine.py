"""Random orders of events: nothing crashes, no audio after `cancelled`, one `done` for each opened
context.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from realtime import wire
from tests.gateway.driver import Driver

NAMES = st.sampled_from(["a", "b", "c", "d"])
PIECES = st.sampled_from(["Hi", " there.", "One. Two.", "", "no; end", "x" * 120, "."])
RAW = st.sampled_from(
    [
        '{"type":"text","context":"a"}',
        '{"type":"text","context":"b","text":"x","speed":2}',
        '{"type":"dance","context":"c"}',
    ]
)
FATAL = st.sampled_from(["nonsense", '{"type":"hello","voice":"nobody"}', "[]"])


class Conversation(RuleBasedStateMachine):
    @initialize(outputs=st.sampled_from([("audio",), ("tokens",), ("audio", "tokens")]))
    def hello(self, outputs):
        self.driver = Driver()
        self.driver.hello(outputs=outputs)
        self.has_vanished = False

    def _running(self):
        return [n for n, request in self.driver.requests.items() if not request.is_over]

    @rule(name=NAMES, piece=PIECES)
    def text(self, name, piece):
        self.driver.say(wire.Text(context=name, text=piece))

    @rule(name=NAMES, voice=st.sampled_from(["other", "nobody"]))
    def text_with_voice(self, name, voice):
        self.driver.say(wire.Text(context=name, text="One.", voice=voice))

    @rule(name=NAMES, kind=st.sampled_from([wire.Flush, wire.End, wire.Cancel]))
    def control(self, name, kind):
        self.driver.say(kind(context=name))

    @rule(name=NAMES, samples=st.integers(0, 10**6))
    def played(self, name, samples):
        self.driver.say(wire.Played(context=name, samples=samples))

    @rule(data=RAW)
    def malformed(self, data):
        self.driver.say(data)

    @precondition(lambda self: self.driver.dones)
    @rule(data=st.one_of(FATAL, st.none()))
    def end_session(self, data):
        at = self.driver.clock.now()
        if data is None:
            self.driver.carry_out(self.driver.protocol.receive_binary(at))
        else:
            self.driver.say(data)

    @precondition(lambda self: self.driver.feeds)
    @rule()
    def prepare(self):
        self.driver.prepare_one()

    @precondition(lambda self: self._running())
    @rule(data=st.data(), frames=st.integers(1, 3), completes=st.booleans())
    def speak(self, data, frames, completes):
        number = data.draw(st.sampled_from(self._running()))
        request = self.driver.requests[number]
        may_complete = request.num_spoken < len(request.phonemes)
        self.driver.speak(number, frames, completes=completes and may_complete)

    @precondition(lambda self: self._running())
    @rule(data=st.data())
    def finish(self, data):
        number = data.draw(st.sampled_from(self._running()))
        is_aborted = number in self.driver.aborted
        reason = (
            "cancelled"
            if is_aborted
            else data.draw(st.sampled_from(["end_of_speech", "length", "guard"]))
        )
        self.driver.finish(number, reason)

    @precondition(lambda self: self._running())
    @rule(data=st.data(), code=st.sampled_from(["engine_lost", "at_capacity", "unheard_of"]))
    def fail(self, data, code):
        self.driver.fail(data.draw(st.sampled_from(self._running())), code)

    @precondition(lambda self: self.driver.outgoing)
    @rule()
    def send(self):
        self.driver.send_one()

    @rule(name=NAMES)
    def speak_and_cancel(self, name):
        """A cancel that overtakes queued audio, which free play seldom finds."""
        before = self._running()
        self.driver.say(wire.Text(context=name, text="One. Two."))
        self.driver.prepare_text()
        for number in self._running():
            if number not in before:
                self.driver.speak(number, 2)
        self.driver.say(wire.Cancel(context=name))

    @rule(seconds=st.sampled_from([0.01, 1.0, 61.0]))
    def wait(self, seconds):
        self.driver.wait(seconds)

    @rule(is_full=st.booleans())
    def fill(self, is_full):
        self.driver.engine.is_full = is_full

    @precondition(lambda self: self.driver.dones)
    @rule()
    def drain(self):
        self.driver.protocol.drain()

    @precondition(lambda self: self.driver.dones)
    @rule()
    def vanish(self):
        self.driver.vanish()
        self.has_vanished = True

    @invariant()
    def samples_add_up(self):
        driver = self.driver
        sent: dict[int, int] = {}
        for frame in driver.all(wire.AudioFrame):
            assert frame.sample_offset == sent.get(frame.number, 0)
            sent[frame.number] = frame.sample_offset + len(frame.pcm) // 2

    def teardown(self):
        driver = getattr(self, "driver", None)
        if driver is None:
            return
        driver.send_all()
        for number in self._running():
            driver.finish(number, "cancelled" if number in driver.aborted else "end_of_speech")
        driver.send_all()
        num_opened = len(driver.requests)
        if driver.closed is None and not self.has_vanished:
            assert len(driver.all(wire.Opened)) == len(driver.all(wire.Done)) == num_opened
        assert len(driver.dones) == num_opened
        assert driver.protocol.num_contexts == 0


TestConversation = Conversation.TestCase
TestConversation.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
