# Not a scenario: the runner must fail it, for a first invocation cannot be warm.
device 1
function f
at 0s submit f as a
expect run a in sandbox 1 warm
