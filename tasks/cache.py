"""Where pulled suites and built runtimes are kept between runs."""

import os
from pathlib import Path


def cache_folder() -> Path:
    """Where fetched and built things are kept: ``RCB_AGENT_CACHE`` or the user's cache folder."""
    chosen = os.environ.get("RCB_AGENT_CACHE")
    if chosen:
        return Path(chosen).absolute()
    import platformdirs

    return Path(platformdirs.user_cache_dir("rcb-agent"))
