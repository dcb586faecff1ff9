# Fails at line 6: it looks again: 610s
shape single takes 20ms
device 1
at 10s idle
at 10s look
expect look-again 600s
