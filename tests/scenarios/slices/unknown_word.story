# Fails at line 3: 'size' has no meaning here
slice 1 1g.10gb
function blur size 3
