"""An agent with a memory, on LangGraph. It knows what was said, and what a person asked to remember.

    checkpoints   the state of each conversation after each step: another process goes on with it
    store         facts about a person for all conversations, found by meaning

A table is booked once the person has said yes, which may be in another process, on another day.

    python agent.py ann monday "Remember that I eat no meat"
    python agent.py ann friday "What can I eat?"
    python agent.py ann friday "Book a table at seven" && python agent.py ann friday yes
"""

import hashlib
import os
import sys
import uuid
from contextlib import ExitStack
from dataclasses import dataclass

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.redis import RedisSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, ToolRuntime
from langgraph.store.redis import RedisStore
from langgraph.types import Command, interrupt

DIMENSIONS = 128
NEAR_ENOUGH = 0.2


def meanings(texts: list[str]) -> list[list[float]]:
    """Stands for a model's: each word adds to one place, so texts that share words are near."""
    found = []
    for text in texts:
        numbers = [0.001] * DIMENSIONS
        for word in "".join(letter if letter.isalnum() else " " for letter in text.lower()).split():
            numbers[int(hashlib.sha1(word.encode()).hexdigest(), 16) % DIMENSIONS] += 1
        found.append(numbers)
    return found


@dataclass
class Person:
    name: str


def label(person: str) -> str:
    """Stands for a person in keys. All are of one length, since the store finds every namespace
    that begins as the one asked for."""
    return hashlib.sha1(person.encode()).hexdigest()


def memories(runtime: ToolRuntime[Person]) -> tuple[str, ...]:
    """Where the store has what is known of a person, and of nobody else."""
    return ("memories", label(runtime.context.name))


@tool
def remember(fact: str, runtime: ToolRuntime[Person]) -> str:
    """Keeps a fact about the person for every conversation."""
    # The key is made of the fact: a step that is repeated after a kill writes the same item.
    runtime.store.put(memories(runtime), hashlib.sha1(fact.encode()).hexdigest(), {"fact": fact})
    return "I will remember it."


@tool
def recall(question: str, runtime: ToolRuntime[Person]) -> str:
    """Returns what is known about the person and is near to the question, the nearest first."""
    found = runtime.store.search(memories(runtime), query=question, limit=3)
    return "; ".join(item.value["fact"] for item in found if item.score >= NEAR_ENOUGH)


@tool
def book(table: str, runtime: ToolRuntime[Person]) -> str:
    """Books a table when the person has said yes."""
    if interrupt(f"Shall I book a table {table}?") != "yes":
        return "Nothing is booked."
    runtime.store.put(("bookings", label(runtime.context.name)), runtime.tool_call_id, {"table": table}, index=False)
    return f"A table {table} is booked."


TOOLS = [remember, recall, book]


def scripted(messages: list[AnyMessage]) -> AIMessage:
    """Stands for a model: it asks for a tool, or repeats what the tool said. A real one is
    `model.bind_tools(TOOLS).invoke`."""
    last = messages[-1]
    if isinstance(last, ToolMessage):
        if last.name != "recall":
            return AIMessage(last.text)
        return AIMessage(f"You told me: {last.text}." if last.text else "You told me nothing about that.")
    words = last.text
    if "first" in words.lower():
        first = next(message for message in messages if isinstance(message, HumanMessage))
        return AIMessage(f"You began with: {first.text}")
    for beginning, chosen, argument in [("remember that ", remember, "fact"), ("book a table ", book, "table"), ("", recall, "question")]:
        if words.lower().startswith(beginning):
            call = {"name": chosen.name, "args": {argument: words[len(beginning) :]}, "id": uuid.uuid4().hex, "type": "tool_call"}
            return AIMessage("", tool_calls=[call])


class Agent:
    """Holds nothing but connections: two agents of one server are the same agent."""

    def __init__(self, url: str, model=scripted):
        self.connections = ExitStack()
        checkpoints = self.connections.enter_context(RedisSaver.from_conn_string(url))
        index = {"dims": DIMENSIONS, "embed": meanings, "distance_type": "cosine", "fields": ["fact"]}
        self.store = self.connections.enter_context(RedisStore.from_conn_string(url, index=index))
        checkpoints.setup()
        self.store.setup()
        graph = StateGraph(MessagesState, context_schema=Person)
        graph.add_node("think", lambda state: {"messages": [model(state["messages"])]})
        graph.add_node("act", ToolNode(TOOLS))
        graph.add_edge(START, "think")
        graph.add_conditional_edges("think", lambda state: "act" if state["messages"][-1].tool_calls else END)
        graph.add_edge("act", "think")
        self.graph = graph.compile(checkpointer=checkpoints, store=self.store)

    def close(self) -> None:
        self.connections.close()

    def say(self, person: str, conversation: str, words: str) -> str:
        """Returns the answer, or a question that the next words answer. A turn that another
        process left half done is ended first."""
        state = self.graph.get_state(of(person, conversation))
        if state.next and not state.interrupts:
            self.run(person, conversation, None)
        given = Command(resume=words) if state.interrupts else {"messages": [HumanMessage(words)]}
        return self.run(person, conversation, given)

    def run(self, person: str, conversation: str, given) -> str:
        # Each step is written before the next begins. Otherwise the question of `book` may be
        # written before its checkpoint, which then overwrites the note that there is one.
        state = self.graph.invoke(given, of(person, conversation), context=Person(person), durability="sync")
        asked = state.get("__interrupt__")
        return asked[0].value if asked else state["messages"][-1].text

    def said(self, person: str, conversation: str) -> list[str]:
        """All that was said, by both."""
        return [message.text for message in self.graph.get_state(of(person, conversation)).values.get("messages", []) if message.text]

    def bookings(self, person: str) -> list[str]:
        return [item.value["table"] for item in self.store.search(("bookings", label(person)))]


def of(person: str, conversation: str) -> dict:
    """Returns LangGraph's configuration of a conversation; two people never share one."""
    return {"configurable": {"thread_id": f"{label(person)}/{conversation}"}}


def connect() -> Agent:
    return Agent(os.environ.get("REDIS_URL", "redis://127.0.0.1:6379"))


def main(words: list[str]) -> None:
    match words:
        case [person, conversation, text]:
            print(connect().say(person, conversation, text))
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
