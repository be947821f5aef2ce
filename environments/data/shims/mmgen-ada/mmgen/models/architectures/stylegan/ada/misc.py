"""Helpers of the augmentations; there are none here."""

from typing import NoReturn

from mmgen.models.architectures.stylegan.ada.augment import absent


def constant(*_arguments: object, **_named: object) -> NoReturn:
    """Its name is imported by mmgen; a call raises."""
    absent("misc.constant")
