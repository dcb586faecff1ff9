// TritonConfig: what a config.pbtxt of Triton's model repository says that is understood here.
// Pure; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"

namespace lambent::model_files {

// Its name in the folder of a model.
constexpr const char* kTritonConfig = "config.pbtxt";

struct TritonConfig {
  std::string name;                          // empty: it names none
  std::string file;                          // in the folder of a version; empty: model.onnx
  std::string version_policy;                // "latest:2", "all" or "specific:1,3"; empty: unsaid
  std::optional<unsigned> batch_size = {};   // requests of one element each that run together
  std::optional<double> batch_wait_ms = {};  // how long an idle model waits for more of them
  std::vector<std::string> warnings;         // what is not used, and why that is no harm
};

// INVALID_ARGUMENT: it is no such text, with its line and column, or something in it contradicts
// itself. UNIMPLEMENTED: a model that is not served here, or a field that would change its answers.
// `place` names the file in both.
Result<TritonConfig> read_triton_config(std::string_view text, const std::string& place);

}  // namespace lambent::model_files
