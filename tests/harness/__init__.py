"""Starts the real server, talks to it in plain RESP, kills it."""
