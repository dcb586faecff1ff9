#include "gpu/executor/early_answers.h"

#include <memory>
#include <utility>

#include "core/base/packet.h"

namespace lambent::executor {
namespace {

// A longer one would hold up the driver's thread; so would one that does not fit one message.
constexpr Bytes kLongestEarly = Bytes::kib(16);

}  // namespace

void EarlyAnswers::prepare(RequestUnderWay& request) {
  const LoadedInstance& loaded = request.instance.loaded;
  if (!request.outputs.are_inline || loaded.has_layers()) return;
  Bytes total;
  for (const WantedOutput& output : request.outputs.all) {
    if (output.as_object) return;
    total += output.size;
  }
  if (total > kLongestEarly) return;
  auto early = std::make_unique<EarlyAnswer>();
  early->codec = &loaded.codec;
  const char* out = static_cast<const char*>(loaded.out->pointer());
  for (const WantedOutput& output : request.outputs.all) {
    early->outputs.push_back({.bytes = {out + output.offset, output.size.count}});
  }
  early->finished = begin_finished(request);
  request.early = std::move(early);
}

std::optional<std::string> EarlyAnswers::answer(RequestUnderWay& request) {
  if (request.early == nullptr || request.failure || request.run.is_withdrawn()) {
    return std::nullopt;
  }
  EarlyAnswer& early = *request.early;
  auto payload = early.codec->encode(request.request, early.outputs);
  if (!payload.ok() || payload->size() > protocol::kInlinePayload.count) return std::nullopt;
  protocol::Finished finished = std::move(early.finished);
  finished.content_type = std::string(kernel_graph::RequestCodec::content_type(request.request));
  finished.payload = std::move(*payload);
  finished.run_time = clock_.now() - request.launched_at;
  std::string message = protocol::encode(std::move(finished));
  {
    const MutexLock lock(mutex_);
    answered_.push_back(request.instance.id);
  }
  if (send_packet(connection_.socket(), message).ok()) message.clear();
  return message;
}

std::vector<SandboxId> EarlyAnswers::take_answered() {
  std::vector<SandboxId> answered;
  const MutexLock lock(mutex_);
  answered.swap(answered_);
  return answered;
}

}  // namespace lambent::executor
