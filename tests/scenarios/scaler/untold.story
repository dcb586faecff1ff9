# Fails at line 6: before this line, the story does not tell: start instance 1 as single on device 1
shape single takes 20ms
device 1
at 0s calls 1
at 0s look
at 1s look
expect nothing
