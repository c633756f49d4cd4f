"""Bytes and rates as people write them."""


def of_bytes(size):
    for unit, of_unit in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= of_unit:
            return f"{size / of_unit:.4g} {unit}"
    return f"{size} B"


def microseconds(value):
    """Three digits are more than rounds agree on."""
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def times(spread):
    """A ratio and its spread."""
    if not spread.is_one:
        return f"{spread.value:.2g}x"
    return f"{spread.value:.3g}x, {spread.low:.2g}-{spread.high:.2g}"
