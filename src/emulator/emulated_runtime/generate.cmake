# Run as a script. From the list of names INPUT writes REFUSALS, a weak definition of every name (a
# function that is really there overrides it when the library is linked), and EXPORTS, a version
# script that exports every name and nothing else.
file(STRINGS ${INPUT} lines REGEX "^RUNTIME_SYMBOL")
set(refusals "extern int emulated_runtime_refuse(const char* name);\n")
set(exports "libcudart.so.13 {\n  global:\n")
foreach(line ${lines})
  string(REGEX REPLACE "^RUNTIME_SYMBOL\\(([A-Za-z0-9_]+).*" "\\1" name "${line}")
  string(APPEND refusals "__attribute__((weak, visibility(\"default\"))) int ${name}(void) { return emulated_runtime_refuse(\"${name}\"); }\n")
  string(APPEND exports "    ${name};\n")
endforeach()
string(APPEND exports "  local: *;\n};\n")
file(WRITE ${REFUSALS} "${refusals}")
file(WRITE ${EXPORTS} "${exports}")
