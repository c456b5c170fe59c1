"""Studies: many questions on any executor, their answers in one store."""
