"""On PYTHONPATH of programs that run without a network: FaunaDB's driver asks the package index for a newer version of itself, and is answered here."""

import types

import requests

ask = requests.get


def get(url, *arguments, **options):
    if url.endswith("/faunadb/json"):
        return types.SimpleNamespace(json=lambda: {"info": {"version": "0"}})
    return ask(url, *arguments, **options)


requests.get = get
