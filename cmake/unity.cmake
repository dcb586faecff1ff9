# With LAMBENT_UNITY the sources of a module are compiled eight at a time, as one: the headers that they share are read once. That is
# less work for a build from nothing and more for a change of one source; docs/internals/build.md has the numbers. A helper may have
# one name in two sources of a module: the second then stands in unity_apart.txt and is compiled apart. tools/check_unity.py holds
# modules against that list.
option(LAMBENT_UNITY "Compile the sources of a module in batches" OFF)
file(STRINGS ${CMAKE_CURRENT_LIST_DIR}/unity_apart.txt unity_apart REGEX "^[^#]")
list(TRANSFORM unity_apart PREPEND ${CMAKE_SOURCE_DIR}/)

# unity(TARGET): for the libraries of modules.
function(unity target)
  if(NOT LAMBENT_UNITY)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
  set_source_files_properties(${unity_apart} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  # A type of an unnamed namespace is the batch's own, although the source is not the file that the compiler was given.
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>)
endfunction()
