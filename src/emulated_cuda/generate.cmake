# Run as a script: writes OUTPUT from the list of names INPUT.
#   KIND=refusals: a weak definition of every name; a function that is really implemented overrides
#                  it when the library is linked.
#   KIND=exports:  a version script that exports every name and nothing else.
file(STRINGS ${INPUT} names)
if(KIND STREQUAL "refusals")
  set(text "extern int emulated_cuda_refuse(const char* name);\n")
  foreach(name ${names})
    string(APPEND text "__attribute__((weak, visibility(\"default\"))) int ${name}(void) { return emulated_cuda_refuse(\"${name}\"); }\n")
  endforeach()
else()
  set(text "{\n  global:\n")
  foreach(name ${names})
    string(APPEND text "    ${name};\n")
  endforeach()
  string(APPEND text "  local: *;\n};\n")
endif()
file(WRITE ${OUTPUT} "${text}")
