"""Who answers: agents, their tools, models."""
