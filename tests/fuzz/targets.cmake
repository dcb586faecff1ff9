# Everything that parses foreign bytes, one line each; see cmake/fuzz.cmake.
fuzz_target(http_request USES http MUTATIONS 200000)
fuzz_target(http_response USES http MUTATIONS 200000)
fuzz_target(runtime_api USES runtime_api http MUTATIONS 2000)
fuzz_target(ledger USES protocol)
fuzz_target(zip USES base domain archive)
fuzz_target(bundle_manifest USES bundle)
fuzz_target(runtime_client_response USES runtime_client)
fuzz_target(device_message USES protocol)
