"""What an answer is worth: the split engine, grades, metrics."""
