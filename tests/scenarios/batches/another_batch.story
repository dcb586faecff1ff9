# Fails at line 5: what happened: run one two three four at 0s
batches size 4 wait 1ms

at 0ms call one two three four
expect run one two three
