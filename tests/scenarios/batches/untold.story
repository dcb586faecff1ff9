# Fails at line 5: before this line, the story does not tell: run one at 0s
batches size 4

at 0ms call one
at 1ms ended
