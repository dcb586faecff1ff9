# Fails at line 7: what happened: run a in sandbox 1 cold
device 1
function f
at 0s submit f as a
expect start sandbox 1 for f
at 1s ready 1
expect run a in sandbox 1 warm   # the first invocation cannot be warm
