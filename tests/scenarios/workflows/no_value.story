# Fails at line 5: '{"boxes":' is no JSON and no reference
component detect calls detector
at 0s start with 1
expect call detect of detector
at 1s detect returns {"boxes":
