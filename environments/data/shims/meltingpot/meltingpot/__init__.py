"""Stands in for Melting Pot, whose games cannot be had as a package: its names can be imported, whatever is asked of them raises."""

from typing import NoReturn


class Absent:
    """One of its modules; without the games there is nothing in it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"this meltingpot is an empty one, without {self._name}.{name}: its games are not here")


substrate = Absent("substrate")
scenario = Absent("scenario")
