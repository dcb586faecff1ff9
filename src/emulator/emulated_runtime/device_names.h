// The names by which nvcc registers kernels and variables, as modules for the host have them. Pure;
// used by the registry.
#pragma once

#include <string>
#include <string_view>

namespace lambent::emulated_runtime {

// In a mangled name nvcc gives an unnamed namespace a name of its own for each file
// (33_GLOBAL__N__ec32f1a1_5_st_cu_main), behind a mark of the file for variables; lambent-bundle
// calls it lambent_unnamed in all of them. Where a program's files are linked by nvcc (-rdc), what
// is static in one of them has its mark in front. Other names stay as they are.
std::string name_in_host_code(std::string_view registered);

}  // namespace lambent::emulated_runtime
