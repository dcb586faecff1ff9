# Fails at line 5: the story ends before the run
component detect calls detector

at 0s start with 1
expect call detect of detector
