"""SpecMemo's simulator: memory, acceptance and speed of speculative decoding on a device.

Nothing is imported here, so that ``specmemo --help`` starts at once; import from the modules.
"""

__version__ = "0.1.0"
