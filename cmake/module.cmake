# floor(NAME USES floors or FLOOR/MODULE...): the modules below this line lie in src/NAME/ and may use those floors, or of them
# the modules named alone, beside their own.
#
# module(NAME DEPENDS other modules... LINKS libraries... [TEST_USES modules...] [OWN_BUILD])
#
# A module is src/FLOOR/NAME/: its *.cc become the static library lambent_NAME, its *_test.cc the test program NAME_test; what
# its tests and those of others share lies in testing/. DEPENDS is the single source of truth for which modules it may include:
# the test 'layering' (tools/check_layering.py) reads these lines and holds includes and floors against them. TEST_USES names
# modules that only the module's tests may use. OWN_BUILD modules (shared libraries) bring a CMakeLists.txt of their own.
include(GoogleTest)
include(cmake/unity.cmake)

macro(floor name)
  set(current_floor ${name})
endmacro()

function(module name)
  cmake_parse_arguments(MODULE "OWN_BUILD" "" "DEPENDS;LINKS;TEST_USES" ${ARGN})
  set(folder ${CMAKE_SOURCE_DIR}/src/${current_floor}/${name})
  if(MODULE_OWN_BUILD)
    add_subdirectory(${folder})
    return()
  endif()
  file(GLOB sources CONFIGURE_DEPENDS ${folder}/*.cc)
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")

  if(sources)
    add_library(lambent_${name} STATIC ${sources})
    unity(lambent_${name})
    set(scope PUBLIC)
  else()
    add_library(lambent_${name} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_include_directories(lambent_${name} ${scope} ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR})
  list(TRANSFORM MODULE_DEPENDS PREPEND lambent_)
  target_link_libraries(lambent_${name} ${scope} ${MODULE_DEPENDS} ${MODULE_LINKS} Threads::Threads)

  if(tests)
    module_test(${name}_test SOURCES ${tests} USES ${name} ${MODULE_TEST_USES})
  endif()
endfunction()

# What is never shipped is linked by lld, which takes a quarter of the processor time of the compiler's own linker.
find_program(LAMBENT_LLD ld.lld)
function(link_quickly target)
  if(LAMBENT_LLD AND NOT LAMBENT_SANITIZE AND NOT LAMBENT_FUZZ)
    target_link_options(${target} PRIVATE -fuse-ld=lld)
  endif()
endfunction()

# module_test(NAME SOURCES files... USES modules...): a GoogleTest program, its cases in ctest under the label NAME. Test code is
# compiled with -O1, because it runs once and takes a fifth less time to compile (docs/internals/build.md); what it tests is not.
function(module_test name)
  cmake_parse_arguments(TEST "" "" "SOURCES;USES" ${ARGN})
  add_executable(${name} ${TEST_SOURCES})
  target_compile_options(${name} PRIVATE $<$<CONFIG:RelWithDebInfo>:-O1>)
  list(TRANSFORM TEST_USES PREPEND lambent_)
  target_link_libraries(${name} PRIVATE ${TEST_USES})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR})
  target_compile_definitions(${name} PRIVATE LAMBENT_SOURCE_DIR="${CMAKE_SOURCE_DIR}"
                                             LAMBENT_BINARY_DIR="${CMAKE_BINARY_DIR}")
  target_link_libraries(${name} PRIVATE GTest::gtest GTest::gmock GTest::gtest_main)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  link_quickly(${name})
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
                       PROPERTIES TIMEOUT 300 LABELS ${name})
endfunction()

# program(NAME SOURCES files... USES modules...): a main in build/bin.
function(program name)
  cmake_parse_arguments(PROGRAM "" "" "SOURCES;USES;LINKS" ${ARGN})
  add_executable(${name} ${PROGRAM_SOURCES})
  list(TRANSFORM PROGRAM_USES PREPEND lambent_)
  target_link_libraries(${name} PRIVATE ${PROGRAM_USES})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${PROGRAM_LINKS} Threads::Threads)
  portable(${name})
endfunction()
