# What lets a program run on machines that have our libraries not, or older ones: docs/decisions/0060-packages.md.

# find_archive(VARIABLE NAME): LAMBENT_VARIABLE is the static library, or the shared one where there is no other.
macro(find_archive variable name)
  find_library(LAMBENT_${variable} NAMES lib${name}.a ${name} REQUIRED)
endmacro()
find_archive(LIBSSL ssl)
find_archive(LIBCRYPTO crypto)
find_archive(SQLITE sqlite3)
find_archive(SECCOMP seccomp)
find_archive(HTTP_PARSER http_parser)
find_archive(ZLIB z)
find_archive(LIBARCHIVE archive)
find_archive(BZIP2 bz2)
find_archive(LZMA lzma)
find_archive(ZSTD zstd)
find_archive(NETTLE nettle)
# With what its zip reader and its tables of formats name.
set(LAMBENT_ZIP ${LAMBENT_LIBARCHIVE} ${LAMBENT_BZIP2} ${LAMBENT_LZMA} ${LAMBENT_ZSTD} ${LAMBENT_NETTLE} ${LAMBENT_ZLIB})

# record_parts(TARGET): the linker writes which files it read to build/KIND/parts, for the list of what a package is made of.
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/parts)
function(record_parts target)
  target_link_options(${target} PRIVATE LINKER:--dependency-file=${CMAKE_BINARY_DIR}/parts/${target}.d)
endfunction()

# portable(TARGET): a program or a shared library that goes into a package. Of the C++ runtime it loads libgcc_s alone, the
# unwinder, which every system has and which must be that of its C library.
function(portable target)
  record_parts(${target})
  if(NOT LAMBENT_SANITIZE)
    target_link_libraries(${target} PRIVATE lambent_portability)
    target_link_options(${target} PRIVATE -static-libstdc++ LINKER:--as-needed)
  endif()
endfunction()
