"""Where code runs: sandboxes, their supervisor, workspaces, runtimes."""
