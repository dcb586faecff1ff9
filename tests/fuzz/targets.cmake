fuzz_target(zip USES base domain archive)
