"""Stands in for wandb, which code may import but without a network cannot use: whatever is asked of it raises."""

from typing import NoReturn


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(f"this wandb is an empty one, without {name}: there is no network to report over")
