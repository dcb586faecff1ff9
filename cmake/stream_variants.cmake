# stream_variants(OUT TABLE file NAMES file HEADERS files... BY_HAND patterns...): writes OUT, the variants for a default stream of
# each thread of the functions in NAMES. TABLE lies in gpu/cuda_abi; HEADERS are what OUT includes; BY_HAND names the variants that the
# library defines itself. See tools/generate_stream_variants.py.
find_package(Python3 REQUIRED COMPONENTS Interpreter)

function(stream_variants out)
  cmake_parse_arguments(VARIANTS "" "TABLE;NAMES" "HEADERS;BY_HAND" ${ARGN})
  set(generator ${CMAKE_SOURCE_DIR}/tools/generate_stream_variants.py)
  set(table ${CMAKE_SOURCE_DIR}/src/gpu/cuda_abi/${VARIANTS_TABLE})
  add_custom_command(OUTPUT ${out} DEPENDS ${generator} ${table} ${VARIANTS_NAMES} VERBATIM
    COMMAND ${Python3_EXECUTABLE} -B ${generator} ${table} ${VARIANTS_NAMES} ${out} ${VARIANTS_HEADERS} --by-hand ${VARIANTS_BY_HAND})
endfunction()
