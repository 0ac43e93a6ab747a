import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import agent
import pytest

PROGRAM = Path(agent.__file__)


@pytest.fixture
def ann():
    """Somebody whom the server has not seen yet."""
    return "ann-" + uuid.uuid4().hex


@pytest.fixture
def connected():
    found = agent.connect()
    yield found
    found.close()


def in_a_process(*words: str) -> str:
    done = subprocess.run([sys.executable, PROGRAM, *words], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_what_was_said_is_known_in_another_process_and_another_conversation(ann):
    assert in_a_process(ann, "monday", "Remember that I eat no meat") == "I will remember it."
    assert in_a_process(ann, "monday", "What did I say first?") == "You began with: Remember that I eat no meat"
    assert in_a_process(ann, "friday", "What can I eat?") == "You told me: I eat no meat."
    assert in_a_process(ann, "friday", "What did I say first?") == "You began with: What can I eat?"


def test_the_nearest_is_recalled_first_and_the_rest_is_not(connected, ann):
    for fact in ["I live in Bonn near the river", "my river boat is blue", "a dog named Rex is mine"]:
        connected.say(ann, "monday", f"Remember that {fact}")
    assert connected.say(ann, "friday", "Which colour has my boat?") == "You told me: my river boat is blue."
    found = connected.say(ann, "friday", "Is my blue boat near the river?")
    assert found == "You told me: my river boat is blue; I live in Bonn near the river."
    assert connected.say(ann, "friday", "anything else") == "You told me nothing about that."


def test_nobody_is_told_what_another_person_said(connected, ann):
    connected.say(ann, "monday", "Remember that the code is 1234")
    connected.say(ann, "monday", "Book a table at nine")
    connected.say(ann, "monday", "yes")
    for other in ["bob", ann[:-1], ann + "1", "*", "ann*", "a|b", ann.upper()]:
        assert connected.say(other, "monday", "what is the code") == "You told me nothing about that.", other
        assert connected.bookings(other) == [], other
    assert connected.say(ann, "monday", "what is the code") == "You told me: the code is 1234."


def test_a_table_is_booked_once_and_only_after_a_yes(connected, ann):
    assert in_a_process(ann, "friday", "Book a table at seven") == "Shall I book a table at seven?"
    assert connected.bookings(ann) == []
    assert in_a_process(ann, "friday", "yes") == "A table at seven is booked."
    assert connected.say(ann, "friday", "yes") == "You told me nothing about that."
    connected.say(ann, "friday", "Book a table at eight")
    assert connected.say(ann, "friday", "no") == "Nothing is booked."
    connected.say(ann, "sunday", "Book a table at nine")
    connected.say(ann, "sunday", "yes")
    assert sorted(connected.bookings(ann)) == ["at nine", "at seven"]


KILLED = """
import os, signal, sys, agent

def model(messages):
    if messages[-1].type == "tool":
        os.kill(os.getpid(), signal.SIGKILL)
    return agent.scripted(messages)

agent.Agent(os.environ["REDIS_URL"], model).say(sys.argv[1], "monday", "Remember that I eat no meat")
"""


def test_what_a_killed_process_has_begun_is_ended_by_the_next(connected, ann):
    done = subprocess.run([sys.executable, "-c", KILLED, ann], cwd=PROGRAM.parent, env={"REDIS_URL": "redis://127.0.0.1:6379"} | os.environ, timeout=120)
    assert done.returncode == -signal.SIGKILL
    assert connected.say(ann, "monday", "What did I say first?") == "You began with: Remember that I eat no meat"
    # The tool had been run and is not run again; its answer comes late.
    begun = ["Remember that I eat no meat", "I will remember it.", "I will remember it."]
    assert connected.said(ann, "monday")[:3] == begun
    assert [item.value for item in connected.store.search(("memories", agent.label(ann)))] == [{"fact": "I eat no meat"}]
