# Every floor and every module, one line each: who it is and what it may use. See ARCHITECTURE.md, sections 1 and 4.
floor(core)
module(portability      OWN_BUILD)
module(base)
module(domain           DEPENDS base)
module(protocol         DEPENDS base domain)
module(metrics          DEPENDS base domain)
module(loop             DEPENDS base domain)
module(http             DEPENDS base domain loop LINKS ${LAMBENT_HTTP_PARSER})
module(crypto           DEPENDS base LINKS ${LAMBENT_LIBCRYPTO})
module(tls              DEPENDS base domain loop http LINKS ${LAMBENT_LIBSSL} ${LAMBENT_LIBCRYPTO})
module(archive          DEPENDS base domain crypto LINKS ${LAMBENT_ZIP})

floor(decide USES core)
module(access           DEPENDS base domain crypto)
module(kernel_graph     DEPENDS base domain)
module(workflow         DEPENDS base domain)
module(scheduling       DEPENDS base domain)
module(dispatch         DEPENDS base domain scheduling)
module(journal          DEPENDS base domain scheduling dispatch TEST_USES simulator)
module(pipeline         DEPENDS base domain)
module(slice_scheduling DEPENDS base domain pipeline)

floor(gpu USES core decide)
module(cuda_abi)
module(mig)
module(ledger           DEPENDS base)
module(device_memory)
module(cuda             DEPENDS base domain cuda_abi)
module(cublas           DEPENDS base domain cuda_abi cuda kernel_graph LINKS ${CMAKE_DL_LIBS})
module(monitor          DEPENDS base domain cuda_abi mig protocol loop LINKS ${CMAKE_DL_LIBS})
module(bundle           DEPENDS base domain cuda_abi LINKS ${LAMBENT_LIBCRYPTO} ${CMAKE_DL_LIBS})
module(forward_ring)
module(forward_server   DEPENDS base domain cuda_abi cuda ledger loop forward_ring)
module(forward_client   DEPENDS base cuda_abi forward_ring OWN_BUILD)
module(stage_channel    DEPENDS base cuda_abi forward_ring LINKS ${CMAKE_DL_LIBS})
module(executor         DEPENDS base domain cuda_abi scheduling kernel_graph bundle protocol device_memory cuda cublas loop forward_server)
module(shim             DEPENDS base cuda_abi ledger protocol device_memory OWN_BUILD)

floor(emulator USES core/base gpu/cuda_abi gpu/mig)
module(emulated_node    DEPENDS base cuda_abi mig OWN_BUILD)
module(emulated_cuda    DEPENDS base cuda_abi emulated_node OWN_BUILD)
module(emulated_runtime DEPENDS base cuda_abi emulated_node OWN_BUILD)

floor(node USES core decide gpu)
module(sandbox          DEPENDS base domain loop LINKS ${LAMBENT_SECCOMP})
module(catalog          DEPENDS base domain LINKS ${LAMBENT_SQLITE} m)
module(objects          DEPENDS base domain protocol loop LINKS ${LAMBENT_ZLIB})
module(tenants          DEPENDS base domain crypto catalog access)
module(runtime_api      DEPENDS base domain loop http)
module(journal_store    DEPENDS base domain journal TEST_USES dispatch scheduling)
module(worker           DEPENDS base domain workflow pipeline slice_scheduling forward_ring stage_channel kernel_graph bundle objects ledger protocol metrics scheduling dispatch journal loop catalog archive sandbox http runtime_api)

floor(sim USES core decide)
module(workload         DEPENDS base domain LINKS ${LAMBENT_ZLIB})
module(sweep            DEPENDS base domain workload)
module(simulator        DEPENDS base domain scheduling dispatch workload metrics TEST_USES scheduling)
module(slice_simulator  DEPENDS base domain pipeline slice_scheduling)

floor(edge USES core decide gpu/mig node/objects sim/workload)
module(frontend         DEPENDS base domain crypto loop http metrics objects)
module(cli              DEPENDS base domain workload workflow pipeline mig loop http archive LINKS ${LAMBENT_HTTP_PARSER})
module(runtime_client   DEPENDS base)

# These decide, simulate and record, event after event. In position-independent code g++ inlines no function that another
# library might replace, which ours are not, and at -O2 few others.
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_BUILD_TYPE STREQUAL RelWithDebInfo AND NOT LAMBENT_SANITIZE)
  foreach(name scheduling dispatch simulator journal)
    target_compile_options(lambent_${name} PRIVATE -fno-semantic-interposition)
  endforeach()
  foreach(name scheduling dispatch simulator)
    target_compile_options(lambent_${name} PRIVATE -O3)
  endforeach()
endif()

# The log is spdlog's and fmt's headers alone: Debian has them as shared libraries only.
set_source_files_properties(${CMAKE_CURRENT_SOURCE_DIR}/src/core/base/log.cc PROPERTIES
  COMPILE_DEFINITIONS "SPDLOG_FMT_EXTERNAL;FMT_HEADER_ONLY")

# g++ warns that the thread sanitizer does not follow fences. Those of forward_ring stand between a flag and what is waited for:
# they decide who is woken. What one side reads of the other is ordered by acquiring and releasing, which it follows.
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND LAMBENT_SANITIZE STREQUAL thread)
  target_compile_options(lambent_forward_ring PUBLIC -Wno-tsan)
endif()
