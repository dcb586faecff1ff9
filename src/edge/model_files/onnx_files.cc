#include "edge/model_files/onnx_files.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <limits>

#include "core/domain/volume.h"

namespace lambent::model_files {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

// Graphs lie in attributes of nodes of graphs.
constexpr int kMostGraphNesting = 64;
constexpr size_t kMostName = 4096;

// The messages of ONNX through which one comes to tensors.
enum class Message { kModel, kTraining, kFunction, kGraph, kNode, kAttribute, kSparse, kTensor };

struct Step {
  Message from;
  int field;
  Message to;
};
// onnx.proto's numbers, which never change.
constexpr Step kSteps[] = {
    {Message::kModel, 7, Message::kGraph},         {Message::kModel, 20, Message::kTraining},
    {Message::kModel, 25, Message::kFunction},     {Message::kTraining, 1, Message::kGraph},
    {Message::kTraining, 2, Message::kGraph},      {Message::kFunction, 7, Message::kNode},
    {Message::kFunction, 11, Message::kAttribute}, {Message::kGraph, 1, Message::kNode},
    {Message::kGraph, 5, Message::kTensor},        {Message::kGraph, 15, Message::kSparse},
    {Message::kNode, 5, Message::kAttribute},      {Message::kAttribute, 5, Message::kTensor},
    {Message::kAttribute, 6, Message::kGraph},     {Message::kAttribute, 10, Message::kTensor},
    {Message::kAttribute, 11, Message::kGraph},    {Message::kAttribute, 22, Message::kSparse},
    {Message::kAttribute, 23, Message::kSparse},   {Message::kSparse, 1, Message::kTensor},
    {Message::kSparse, 2, Message::kTensor}};
constexpr int kExternalData = 13;  // of a tensor: keys and values
constexpr int kKey = 1;
constexpr int kValue = 2;

const Step* step_at(Message from, int field) {
  for (const Step& step : kSteps) {
    if (step.from == from && step.field == field) return &step;
  }
  return nullptr;
}

Error no_model() { return {ErrorCode::kInvalidArgument, "it is no ONNX model"}; }

class Reader {
 public:
  explicit Reader(std::string_view model)
      : stream_(reinterpret_cast<const uint8_t*>(model.data()), static_cast<int>(model.size())) {}

  // The fields up to the limit that is set, or to the end.
  Result<void> read(Message message, int depth) {
    if (depth > kMostGraphNesting) {
      return Error{ErrorCode::kInvalidArgument, "its graphs lie too deep in each other"};
    }
    for (;;) {
      const uint32_t tag = stream_.ReadTag();
      if (tag == 0) {
        if (stream_.ConsumedEntireMessage()) return {};
        return no_model();
      }
      RETURN_IF_ERROR(read_field(message, tag, depth));
    }
  }

  std::set<std::string>& found() { return found_; }
  bool has_graph() const { return has_graph_; }

 private:
  Result<void> read_field(Message message, uint32_t tag, int depth) {
    const int field = WireFormatLite::GetTagFieldNumber(tag);
    const bool is_block =
        WireFormatLite::GetTagWireType(tag) == WireFormatLite::WIRETYPE_LENGTH_DELIMITED;
    const Step* step = is_block ? step_at(message, field) : nullptr;
    const bool is_external = is_block && message == Message::kTensor && field == kExternalData;
    if (step == nullptr && !is_external) {
      if (WireFormatLite::SkipField(&stream_, tag)) return {};
      return no_model();
    }
    if (message == Message::kModel && step != nullptr) has_graph_ = true;
    int size = 0;
    if (!stream_.ReadVarintSizeAsInt(&size)) return no_model();
    // Beyond what is left, its end is that of what it lies in, and the end is noticed to be
    // missing.
    const CodedInputStream::Limit limit = stream_.PushLimit(size);
    const int64_t end = int64_t{stream_.CurrentPosition()} + size;
    RETURN_IF_ERROR(is_external ? read_entry() : read(step->to, depth + 1));
    if (stream_.CurrentPosition() != end) return no_model();
    stream_.PopLimit(limit);
    return {};
  }

  // A key and its value.
  Result<void> read_entry() {
    std::string key;
    std::string value;
    for (uint32_t tag = stream_.ReadTag(); tag != 0; tag = stream_.ReadTag()) {
      const int field = WireFormatLite::GetTagFieldNumber(tag);
      const bool is_text =
          WireFormatLite::GetTagWireType(tag) == WireFormatLite::WIRETYPE_LENGTH_DELIMITED &&
          (field == kKey || field == kValue);
      if (!is_text) {
        if (!WireFormatLite::SkipField(&stream_, tag)) return no_model();
        continue;
      }
      if (!WireFormatLite::ReadBytes(&stream_, field == kKey ? &key : &value)) return no_model();
    }
    if (!stream_.ConsumedEntireMessage()) return no_model();
    return key == "location" ? add(value) : Result<void>();
  }

  Result<void> add(const std::string& place) {
    if (place.size() > kMostName || !validate_volume_path(place).ok()) {
      return Error{ErrorCode::kInvalidArgument, "it keeps tensors in '" + place.substr(0, 200) +
                                                    "', which is no file beside it"};
    }
    found_.insert(place);
    if (found_.size() <= kMostExternalFiles) return {};
    return Error{ErrorCode::kOutOfRange, "it keeps its tensors in more than " +
                                             std::to_string(kMostExternalFiles) + " files"};
  }

  CodedInputStream stream_;
  std::set<std::string> found_;
  bool has_graph_ = false;
};

}  // namespace

Result<std::set<std::string>> external_files(std::string_view model) {
  // ONNX cannot be larger either: that is what external data is for.
  if (model.size() > static_cast<size_t>(std::numeric_limits<int>::max())) return no_model();
  Reader reader(model);
  RETURN_IF_ERROR(reader.read(Message::kModel, 0));
  if (!reader.has_graph()) return no_model();
  return std::move(reader.found());
}

}  // namespace lambent::model_files
