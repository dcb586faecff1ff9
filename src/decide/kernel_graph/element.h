// One element of a tensor as JSON and back: literals and fills of a graph, data of requests and
// answers. Pure functions; any thread.
#pragma once

#include <string>
#include <string_view>

#include "core/domain/tensor_type.h"

namespace lambent::kernel_graph {

enum class ElementProblem : uint8_t {
  kNone,
  kWrongKind,   // such as true for INT32, or a fraction
  kOutOfRange,  // a number that the datatype cannot hold
  kNoJsonForm,  // FP16, BF16 and BYTES come only in base64
};

// Whether the datatype's elements can be written as JSON numbers, true, false and "NaN".
bool has_json_form(DataType type);

// `token` is one JSON scalar as it stands in the text, strings with their quotes. Writes
// size_of(type) bytes, if there is no problem.
ElementProblem read_element(DataType type, std::string_view token, char* out);

// "300 is out of range of UINT8".
std::string describe(ElementProblem problem, DataType type, std::string_view token);

// The shortest text that reads back as the same bytes (NaN: as a NaN). The datatype has a JSON
// form.
void append_element(DataType type, const char* bytes, std::string& out);

}  // namespace lambent::kernel_graph
