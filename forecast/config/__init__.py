"""The config: composed by Hydra, checked before any data is read, built through one allow list.

Imports nothing heavy: `--help` and `--cfg job` must answer before torch could be loaded.
"""
