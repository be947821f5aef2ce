"""How it is carried out and kept: configs, trials, grading, the run folder, tables."""
