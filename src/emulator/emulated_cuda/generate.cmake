# Run as a script: writes to OUTPUT a version script that exports every name of INPUT and nothing else.
file(STRINGS ${INPUT} names)
set(text "{\n  global:\n")
foreach(name ${names})
  string(APPEND text "    ${name};\n")
endforeach()
string(APPEND text "  local: *;\n};\n")
file(WRITE ${OUTPUT} "${text}")
