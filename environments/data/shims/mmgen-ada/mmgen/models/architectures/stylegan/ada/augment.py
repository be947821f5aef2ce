"""The augmentations themselves; there are none here."""

from typing import NoReturn


class AugmentPipe:
    """Its name is imported by mmgen; it cannot be made."""

    def __init__(self, *_arguments: object, **_named: object) -> None:
        absent("augment.AugmentPipe")


def absent(name: str) -> NoReturn:
    """Say what is missing."""
    raise NotImplementedError(f"mmgen's package holds no stylegan/ada: there is no {name}")
