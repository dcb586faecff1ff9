// Requests to kernel functions: any bytes are read or refused, and what is read can be answered.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "decide/kernel_graph/request.h"

namespace {

using namespace lambent::kernel_graph;

RequestCodec codec() {
  using lambent::DataType;
  KernelGraph graph;
  const auto add = [&](const char* name, BufferRole role, DataType type,
                       std::vector<uint64_t> shape) {
    graph.buffers.push_back({.name = name, .role = role, .type = {type, std::move(shape)}});
  };
  add("x", BufferRole::kInput, DataType::kFp32, {2, 2});
  add("n", BufferRole::kInOut, DataType::kInt8, {});
  add("h", BufferRole::kInOut, DataType::kFp16, {2});
  add("y", BufferRole::kOutput, DataType::kFp64, {1, 1, 1});
  return RequestCodec(graph);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const RequestCodec kCodec = codec();
  constexpr uint64_t kSizes[] = {16, 1, 4, 8};  // of the buffers
  if (size == 0) return 0;
  const std::string_view payload(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto request = kCodec.decode(data[0] == '#' ? kRawContentType : kJsonContentType, payload);
  if (!request.ok()) return 0;
  std::string bytes(16, '\0');
  for (const RequestInput& input : request->inputs) {
    if (input.object) continue;
    if (input.bytes.size() != kSizes[input.buffer]) abort();
    // All of it can be read.
    bytes.replace(0, input.bytes.size(), input.bytes);
  }
  std::vector<AnswerOutput> answer;
  for (const RequestOutput& output : request->outputs) {
    AnswerOutput& made = answer.emplace_back();
    if (output.as_object) made.object.emplace();
    made.bytes = std::string_view(bytes).substr(0, kSizes[output.buffer]);
  }
  if (!kCodec.encode(*request, answer).ok()) abort();
  return 0;
}
