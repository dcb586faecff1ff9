# Fails at line 4: before this line, the story does not tell: call detect of detector with 1
component detect calls detector
at 0s start with 1
at 1s detect returns 1
expect succeeded
