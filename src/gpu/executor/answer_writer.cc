#include "gpu/executor/answer_writer.h"

#include <algorithm>
#include <memory>

#include "core/base/sealed_memory.h"

namespace lambent::executor {
namespace {

// An answer by value that is larger is written by another thread.
constexpr Bytes kInlineAnswer = Bytes::kib(64);

const char* page_locked_outputs(const RequestUnderWay& request) {
  return static_cast<const char*>(request.instance.loaded.out->pointer());
}

Result<AnswerWriter::Answer> encoded(const RequestUnderWay& request,
                                     const std::vector<kernel_graph::AnswerOutput>& outputs) {
  AnswerWriter::Answer answer;
  ASSIGN_OR_RETURN(answer.payload, request.instance.loaded.codec.encode(request.request, outputs));
  if (answer.payload.size() <= protocol::kInlinePayload.count) return answer;
  ASSIGN_OR_RETURN(answer.file, sealed_memory(answer.payload));
  return answer;
}

}  // namespace

void AnswerWriter::prepare(RequestUnderWay& request) {
  if (request.outputs.are_inline) return;
  for (WantedOutput& output : request.outputs.all) {
    if (!output.as_object || output.is_kept) continue;
    auto memory = memory_.make(output.size);
    if (memory.ok()) output.early.emplace(std::move(*memory));
  }
}

void AnswerWriter::write(RequestUnderWay& request, Then then) {
  const char* out = page_locked_outputs(request);
  for (WantedOutput& output : request.outputs.all) {
    if (output.is_kept) continue;
    if (!output.as_object) {
      // The thread that copies makes its pages, not this one.
      if (!request.outputs.are_inline) {
        output.bytes = std::make_unique_for_overwrite<char[]>(output.size.count);
      }
      continue;
    }
    if (output.early) {
      output.file = EarlyMemory::take(std::move(*output.early));
      output.early.reset();
      continue;
    }
    auto file = request.outputs.are_inline ? sealed_memory({out + output.offset, output.size.count})
                                           : new_memory(output.size);
    if (!file.ok()) return then(file.error());
    output.file = std::move(*file);
  }
  if (request.outputs.are_inline) return encode(request, std::move(then));
  copy(request, std::move(then));
}

void AnswerWriter::copy(RequestUnderWay& request, Then then) {
  TransferEngine::Transfer transfer;
  transfer.owner = user_of(request.instance.id);
  for (WantedOutput& output : request.outputs.all) {
    if (output.is_kept) continue;
    transfer.pieces.push_back({.device = output.from, .size = output.size});
    if (output.as_object) {
      transfer.pieces.back().fd = output.file.get();
    } else {
      transfer.pieces.back().pointer = output.bytes.get();
    }
  }
  transfer.on_end = [this, &request, then = std::move(then)](Result<void> outcome) {
    if (!outcome.ok()) return then(outcome.error());
    seal_objects(request, then);
  };
  to_host_.start(std::move(transfer));
}

// Of a large file that takes its time.
void AnswerWriter::seal_objects(RequestUnderWay& request, Then then) {
  const auto& outputs = request.outputs.all;
  const bool has_objects = std::any_of(outputs.begin(), outputs.end(),
                                       [](const auto& output) { return output.as_object; });
  if (!has_objects) return encode(request, std::move(then));
  auto outcome = std::make_shared<Result<void>>();
  thread_.run(
      [&outputs, outcome] {
        for (const WantedOutput& output : outputs) {
          if (outcome->ok() && output.file.valid()) *outcome = seal(output.file.get());
        }
      },
      [this, &request, outcome, then = std::move(then)] {
        if (!outcome->ok()) return then(outcome->error());
        encode(request, then);
      });
}

void AnswerWriter::encode(const RequestUnderWay& request, Then then) {
  if (request.run.is_withdrawn()) return then(Answer());  // which is not sent
  const char* out = page_locked_outputs(request);
  Bytes by_value;
  std::vector<kernel_graph::AnswerOutput> outputs;
  for (const WantedOutput& output : request.outputs.all) {
    if (output.as_object) {
      outputs.push_back({.object = output.object});
      continue;
    }
    by_value += output.size;
    const char* bytes = request.outputs.are_inline ? out + output.offset : output.bytes.get();
    outputs.push_back({.bytes = {bytes, output.size.count}});
  }
  if (by_value <= kInlineAnswer) return then(encoded(request, outputs));
  auto answer = std::make_shared<Result<Answer>>(Error{});
  thread_.run(
      [&request, outputs = std::move(outputs), answer] { *answer = encoded(request, outputs); },
      [answer, then = std::move(then)] { then(std::move(*answer)); });
}

}  // namespace lambent::executor
