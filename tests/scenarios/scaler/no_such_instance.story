# Fails at line 5: there is no instance 2
shape single takes 20ms
device 1

at 1s busy 2
