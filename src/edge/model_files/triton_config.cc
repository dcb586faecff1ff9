#include "edge/model_files/triton_config.h"

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/text_format.h>

#include <limits>

#include "triton_config.pb.h"

namespace lambent::model_files {
namespace {

constexpr std::string_view kPlatform = "onnxruntime_onnx";
constexpr std::string_view kBackend = "onnxruntime";
constexpr int kMostTextNesting = 16;

// The first mistake, with its place.
class FirstError final : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, google::protobuf::io::ColumnNumber column,
                const std::string& message) override {
    if (!text_.empty()) return;
    text_ = (line < 0 ? ""
                      : "line " + std::to_string(line + 1) + ", column " +
                            std::to_string(column + 1) + ": ") +
            message;
  }
  void AddWarning(int, google::protobuf::io::ColumnNumber, const std::string&) override {}
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// Names of the messages are ours, and say nothing to who wrote the file.
std::string readable(std::string text) {
  const std::string package = "lambent.model_files.";
  for (size_t at = text.find(package); at != std::string::npos; at = text.find(package, at)) {
    text.erase(at, package.size());
  }
  return text;
}

Error unserved(const std::string& what) { return {ErrorCode::kUnimplemented, what}; }

Result<void> check_engine(const ModelConfig& config) {
  if (config.has_platform() && !config.platform().empty() && config.platform() != kPlatform) {
    return unserved("platform '" + config.platform() + "' is not served here; " +
                    std::string(kPlatform) + " is");
  }
  if (config.has_backend() && !config.backend().empty() && config.backend() != kBackend) {
    return unserved("backend '" + config.backend() + "' is not served here; " +
                    std::string(kBackend) + " is");
  }
  return {};
}

Result<void> check_tensors(const google::protobuf::RepeatedPtrField<Tensor>& tensors) {
  for (const Tensor& tensor : tensors) {
    const char* field = tensor.has_reshape()               ? "reshape"
                        : tensor.is_shape_tensor()         ? "is_shape_tensor"
                        : tensor.allow_ragged_batch()      ? "allow_ragged_batch"
                        : !tensor.label_filename().empty() ? "label_filename"
                                                           : nullptr;
    if (field == nullptr) continue;
    return unserved("'" + tensor.name() + "' has " + field + ", which is not supported");
  }
  return {};
}

Result<std::string> policy_of(const VersionPolicy& policy) {
  if (policy.has_all()) return std::string("all");
  if (policy.has_specific()) {
    std::string text = "specific:";
    for (int i = 0; i < policy.specific().versions_size(); ++i) {
      text += (i == 0 ? "" : ",") + std::to_string(policy.specific().versions(i));
    }
    return text;
  }
  if (!policy.has_latest()) {
    return Error{ErrorCode::kInvalidArgument, "version_policy says latest, all or specific"};
  }
  return "latest:" +
         std::to_string(policy.latest().has_num_versions() ? policy.latest().num_versions() : 1);
}

Result<void> read_batches(const ModelConfig& config, TritonConfig& read) {
  if (config.max_batch_size() < 0) {
    return Error{ErrorCode::kInvalidArgument, "max_batch_size is below 0"};
  }
  if (!config.has_dynamic_batching()) return {};
  if (config.max_batch_size() == 0) {
    return Error{ErrorCode::kInvalidArgument, "dynamic_batching needs a max_batch_size above 0"};
  }
  read.batch_size = static_cast<unsigned>(config.max_batch_size());
  const DynamicBatching& batching = config.dynamic_batching();
  if (batching.has_max_queue_delay_microseconds()) {
    constexpr double kMicrosecondsInOne = 1e3;
    read.batch_wait_ms =
        static_cast<double>(batching.max_queue_delay_microseconds()) / kMicrosecondsInOne;
  }
  if (batching.preferred_batch_size_size() > 0) {
    read.warnings.emplace_back(
        "preferred_batch_size is not used: what came while the model ran is the next batch");
  }
  return {};
}

void warn_of_instances(const ModelConfig& config, TritonConfig& read) {
  for (const InstanceGroup& group : config.instance_group()) {
    if (group.kind() == InstanceGroup::KIND_GPU) {
      read.warnings.emplace_back(
          "instance_group names GPUs: onnxruntime runs on the host's processors here; --engine "
          "kernels uses a GPU");
    } else {
      read.warnings.emplace_back(
          "instance_group is not used: instances start and leave with the requests "
          "(min_instances of a lambent.toml keeps some)");
    }
    return;
  }
}

Result<TritonConfig> read_config(const ModelConfig& config) {
  TritonConfig read{.name = config.name(),
                    .file = config.default_model_filename(),
                    .version_policy = {},
                    .warnings = {}};
  RETURN_IF_ERROR(check_engine(config));
  if (!config.runtime().empty()) return unserved("runtime '" + config.runtime() + "'");
  RETURN_IF_ERROR(check_tensors(config.input()));
  RETURN_IF_ERROR(check_tensors(config.output()));
  if (config.has_version_policy()) {
    ASSIGN_OR_RETURN(read.version_policy, policy_of(config.version_policy()));
  }
  RETURN_IF_ERROR(read_batches(config, read));
  warn_of_instances(config, read);
  return read;
}

}  // namespace

Result<TritonConfig> read_triton_config(std::string_view text, const std::string& place) {
  if (text.size() > static_cast<size_t>(std::numeric_limits<int>::max())) {
    return Error{ErrorCode::kInvalidArgument, place + ": it is too large"};
  }
  ModelConfig config;
  FirstError mistake;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&mistake);
  parser.SetRecursionLimit(kMostTextNesting);
  google::protobuf::io::ArrayInputStream stream(text.data(), static_cast<int>(text.size()));
  if (!parser.Parse(&stream, &config)) {
    const bool is_unknown = mistake.text().find("has no field named") != std::string::npos;
    return Error{is_unknown ? ErrorCode::kUnimplemented : ErrorCode::kInvalidArgument,
                 place + ": " + readable(mistake.text()) +
                     (is_unknown ? " that is understood here; a lambent.toml beside the versions "
                                   "says what this model needs"
                                 : "")};
  }
  auto read = read_config(config);
  if (!read.ok()) return read.error().with_context(place);
  return read;
}

}  // namespace lambent::model_files
