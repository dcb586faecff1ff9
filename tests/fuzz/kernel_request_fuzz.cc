// Requests to kernel functions: any bytes are read or refused, and what is read can be answered.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "decide/kernel_graph/request.h"

namespace {

using namespace lambent::kernel_graph;

RequestCodec codec(bool has_variants) {
  using lambent::DataType;
  KernelGraph graph;
  const auto add = [&](const char* name, BufferRole role, DataType type,
                       std::vector<uint64_t> shape) {
    graph.buffers.push_back({.name = name, .role = role, .type = {type, std::move(shape)}});
  };
  if (has_variants) {
    for (const uint64_t batch : {1, 3, 4}) {
      Repeat variant;
      variant.batch = batch;
      graph.steps.emplace_back(variant);
    }
    add("x", BufferRole::kInput, DataType::kFp32, {4, 1});
    add("n", BufferRole::kInOut, DataType::kInt8, {4});
    add("y", BufferRole::kOutput, DataType::kFp64, {4, 1});
    return RequestCodec(graph);
  }
  add("x", BufferRole::kInput, DataType::kFp32, {2, 2});
  add("n", BufferRole::kInOut, DataType::kInt8, {});
  add("h", BufferRole::kInOut, DataType::kFp16, {2});
  add("y", BufferRole::kOutput, DataType::kFp64, {1, 1, 1});
  return RequestCodec(graph);
}

// What is read can be answered, and each part has the size that the request has of it.
void check(const RequestCodec& codec, std::string_view type, std::string_view payload) {
  const auto request = codec.decode(type, payload);
  if (!request.ok()) return;
  if (request->elements > request->variant) abort();
  std::string bytes(32, '\0');
  for (const RequestInput& input : request->inputs) {
    if (input.object) continue;
    if (input.bytes.size() != codec.size_of(input.buffer, input.elements).count) abort();
    // All of it can be read.
    bytes.replace(0, input.bytes.size(), input.bytes);
  }
  std::vector<AnswerOutput> answer;
  for (const RequestOutput& output : request->outputs) {
    AnswerOutput& made = answer.emplace_back();
    if (output.as_object) made.object.emplace();
    made.bytes =
        std::string_view(bytes).substr(0, codec.size_of(output.buffer, output.elements).count);
  }
  if (!codec.encode(*request, answer).ok()) abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const RequestCodec kPlain = codec(false), kVariants = codec(true);
  if (size == 0) return 0;
  const std::string_view payload(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::string_view type = data[0] == '#'   ? kRawContentType
                                : data[0] == '%' ? kBatchContentType
                                                 : kJsonContentType;
  check(kPlain, type, payload);
  check(kVariants, type, payload);
  return 0;
}
