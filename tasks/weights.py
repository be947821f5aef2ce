"""Whether the weights of a model can be downloaded: known for the published models as of their run, June 2025."""

from rcb_agent.tasks.cutoffs import find_cutoff
from rcb_agent.tasks.published import load_published

OPEN, CLOSED, UNKNOWN = "open", "closed", "unknown"

_OPEN_MODELS = frozenset(
    {
        "DEEPSEEK_R1",
        "OPENROUTER_DEEPSEEK_CHAT_V3_0324",
        "QWEN_2_5_CODER_32B_INSTRUCT",
        "LLAMA_3_3_70B_INSTRUCT",
        "OPENROUTER_LLAMA_4_MAVERICK",
        "OPENROUTER_LLAMA_4_SCOUT",
        "OPENROUTER_MISTRAL_CODESTRAL_MAMBA",
        "OPENROUTER_COHERE_COMMAND_A",
    }
)


def classify_weights(*names: str) -> str:
    """Return open, closed or unknown for a model under any of its names."""
    published = {model.id for model in load_published().models}
    for name in names:
        known = find_cutoff(name)
        model = known.model if known else name
        if model in published:
            return OPEN if model in _OPEN_MODELS else CLOSED
    return UNKNOWN
