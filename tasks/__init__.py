"""What is asked: suites, papers, tasks, masking."""
