# Fails at line 6: what happened: call detect of detector with {"image":"street"}
workflow traffic
component detect calls detector

at 0s start with {"image": "street"}
expect call detect of detector with {"image": "road"}
