# Fails at line 5: no call 'faces' is under way
component detect calls detector
at 0s start with 1
expect call detect of detector
at 1s faces returns 1
