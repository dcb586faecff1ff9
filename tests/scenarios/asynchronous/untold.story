# Fails at line 5: before this line, the story does not tell: run 2 at 61s
# What follows has to be told.
retries 1
at 1s fails
at 61s succeeds
