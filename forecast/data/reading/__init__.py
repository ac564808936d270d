"""A file as found -> rows, numbers and times: bytes, packing, lines, cells, clock. The keys for it: layout.py."""
