# Fails at line 2: 'small' is no shape of a slice; write it like 2g.20gb
slice 1 small
