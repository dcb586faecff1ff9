# room(NAME DEPENDS other rooms... LINKS libraries... [TEST_USES rooms...] [OWN_BUILD])
#
# A room is src/NAME/: its *.cc become the static library lambent_NAME, its *_test.cc the test program
# NAME_test. DEPENDS is the single source of truth for which rooms it may include; the test
# 'layering' (tools/check_layering.py) reads these same lines and holds the includes against them.
# TEST_USES names rooms that only the room's tests may use. OWN_BUILD rooms (shared libraries) bring
# a CMakeLists.txt of their own. A room whose folder does not exist yet is skipped.
include(GoogleTest)

function(room name)
  cmake_parse_arguments(ROOM "OWN_BUILD" "" "DEPENDS;LINKS;TEST_USES" ${ARGN})
  set(folder ${CMAKE_SOURCE_DIR}/src/${name})
  if(NOT EXISTS ${folder})
    return()
  endif()
  if(ROOM_OWN_BUILD)
    if(EXISTS ${folder}/CMakeLists.txt)
      add_subdirectory(${folder})
    endif()
    return()
  endif()
  file(GLOB sources CONFIGURE_DEPENDS ${folder}/*.cc)
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")

  if(sources)
    add_library(lambent_${name} STATIC ${sources})
    set(scope PUBLIC)
  else()
    add_library(lambent_${name} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_include_directories(lambent_${name} ${scope} ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR})
  foreach(other ${ROOM_DEPENDS})
    if(TARGET lambent_${other})
      target_link_libraries(lambent_${name} ${scope} lambent_${other})
    endif()
  endforeach()
  target_link_libraries(lambent_${name} ${scope} ${ROOM_LINKS} Threads::Threads)

  if(tests)
    room_test(${name}_test SOURCES ${tests} USES ${name} ${ROOM_TEST_USES})
  endif()
endfunction()

# room_test(NAME SOURCES files... USES rooms...): a GoogleTest program, its cases in ctest under the label NAME.
function(room_test name)
  cmake_parse_arguments(TEST "" "" "SOURCES;USES" ${ARGN})
  add_executable(${name} ${TEST_SOURCES})
  foreach(other ${TEST_USES})
    if(TARGET lambent_${other})
      target_link_libraries(${name} PRIVATE lambent_${other})
    endif()
  endforeach()
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR})
  target_compile_definitions(${name} PRIVATE LAMBENT_SOURCE_DIR="${CMAKE_SOURCE_DIR}"
                                             LAMBENT_BINARY_DIR="${CMAKE_BINARY_DIR}")
  target_link_libraries(${name} PRIVATE GTest::gtest GTest::gmock GTest::gtest_main)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
                       PROPERTIES TIMEOUT 120 LABELS ${name})
endfunction()

# program(NAME SOURCES files... USES rooms...): a main in build/bin.
function(program name)
  cmake_parse_arguments(PROGRAM "" "" "SOURCES;USES;LINKS" ${ARGN})
  add_executable(${name} ${PROGRAM_SOURCES})
  foreach(other ${PROGRAM_USES})
    if(TARGET lambent_${other})
      target_link_libraries(${name} PRIVATE lambent_${other})
    endif()
  endforeach()
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${PROGRAM_LINKS} Threads::Threads)
endfunction()
