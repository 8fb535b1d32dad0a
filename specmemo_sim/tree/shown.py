"""Values from outside as short text for error messages."""


def shown(value: object) -> str:
    """``repr`` of ``value`` cut to 40 characters; a huge whole number by its size only."""
    if isinstance(value, int) and value.bit_length() > 128:
        # Python refuses to print whole numbers of more than 4300 digits.
        return f"a number of {value.bit_length()} bits"
    if isinstance(value, list | tuple):
        return shown_path(value)
    return f"{value!r:.40}"


def shown_path(path: list[object] | tuple[object, ...]) -> str:
    """``path`` in brackets, cut after eight entries."""
    head = ", ".join(
        f"{type(entry).__name__}" if isinstance(entry, list | tuple) else shown(entry)
        for entry in path[:8]
    )
    return f"[{head}, ...]" if len(path) > 8 else f"[{head}]"
