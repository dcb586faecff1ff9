// Which other files an ONNX model keeps its tensors in ("external data"). Reads foreign bytes;
// fuzzed. Pure; any thread.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "core/base/result.h"

namespace lambent::model_files {

// Whether a file is called as models are: "model.onnx".
constexpr bool is_onnx_name(std::string_view name) { return name.ends_with(".onnx"); }

// Of a model's own file: no message of protobuf is larger.
constexpr size_t kMostModel = (size_t{1} << 31) - 1;
// Of one model.
constexpr size_t kMostExternalFiles = 1'000;

// Their places, seen from the model's own folder. INVALID_ARGUMENT: it is no ONNX model, or names a
// file outside of that folder; OUT_OF_RANGE: it names more than kMostExternalFiles.
Result<std::set<std::string>> external_files(std::string_view model);

}  // namespace lambent::model_files
