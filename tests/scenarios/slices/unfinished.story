# Fails at line 9: the story ends before request a
policy fcfs
slice 1 1g.10gb
function blur
component paint takes 1s

at 0s request blur as a
expect start instance 1 of blur
expect at 1s run a on instance 1
