# Fails at line 6: the story ends before the calls
batches size 4

at 0ms call one
expect run one

