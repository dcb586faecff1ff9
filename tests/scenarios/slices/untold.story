# Fails at line 9: before this line, the story does not tell what happened at 1s: run a on instance 1
policy fcfs
slice 1 1g.10gb
function blur
component paint takes 1s

at 0s request blur as a
expect start instance 1 of blur
at 5s request blur as b
