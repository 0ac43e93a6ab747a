"""Data directories as released versions have written them, which every later version must open.

`python -m formats NAME` (in `tests/`, with QUARTET_BIN) makes `fixtures/NAME-memory` and `fixtures/NAME-ssd` with the binary at hand: once for each
format that is released. A folder is never made anew: it stands for directories that users have.
"""
