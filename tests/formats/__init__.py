"""Data directories of every format, which every later version must open.

`python -m formats NUMBER` (in `tests/`, with QUARTET_BIN) makes `fixtures/NUMBER-memory` and `fixtures/NUMBER-ssd` with the binary at hand: once for
each format. From the first release on a folder is never made anew: it stands for directories that users have.
"""
