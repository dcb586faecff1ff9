# Fails at line 7: its next run is due at 61s
# A run that begins before it is due is no life of an invocation.
retries 1

at 1s fails
expect run 2 at 61s
at 60s succeeds
