// Early answers: what needs nothing but the bytes that the device has written is answered by the
// driver's own thread when it calls back, before the loop has been woken. The loop hears of it
// behind the answer, and releases what the request held.
#include <utility>

#include "core/base/check.h"
#include "core/base/packet.h"
#include "gpu/executor/executor.h"

namespace lambent::executor {
namespace {

// A longer one would hold up the driver's thread; so would one that does not fit one message.
constexpr Bytes kLongestEarly = Bytes::kib(16);

}  // namespace

// All that the driver's thread needs, while the loop still has it. Of a request whose last work is
// queued, and which waits for the device alone.
void Executor::prepare_early(Instance& instance) {
  RequestUnderWay& request = *instance.request;
  if (!request.outputs_inline || has_layers(instance)) return;
  Bytes total;
  for (const WantedOutput& output : request.outputs) {
    if (output.as_object) return;
    total += output.size;
  }
  if (total > kLongestEarly) return;
  auto early = std::make_unique<EarlyAnswer>();
  early->codec = &instance.loaded->codec;
  const char* out = static_cast<const char*>(instance.loaded->out->pointer());
  for (const WantedOutput& output : request.outputs) {
    early->outputs.push_back({.bytes = {out + output.offset, output.size.count}});
  }
  early->finished = begin_finished(instance);
  request.early = std::move(early);
}

// On the driver's thread. From the moment that it is in `answered_` the loop may take the request
// away.
std::optional<std::string> Executor::answer_early(SandboxId instance, RequestUnderWay& request) {
  if (request.early == nullptr || request.failure || request.is_withdrawn) return std::nullopt;
  EarlyAnswer& early = *request.early;
  auto payload = early.codec->encode(request.request, early.outputs);
  if (!payload.ok() || payload->size() > protocol::kInlinePayload.count) return std::nullopt;
  protocol::Finished finished = std::move(early.finished);
  finished.content_type = std::string(kernel_graph::RequestCodec::content_type(request.request));
  finished.payload = std::move(*payload);
  finished.run_time = loop_.clock().now() - request.launched_at;
  std::string message = protocol::encode(std::move(finished));
  {
    const MutexLock lock(answered_mutex_);
    answered_.push_back(instance);
  }
  if (send_packet(connection_.socket(), message).ok()) message.clear();
  return message;
}

void Executor::answered_early(std::string unsent) {
  if (watch_.has_ended()) return;
  settle_answered();
  if (!unsent.empty()) connection_.send(std::move(unsent));
}

// Before the next message: the worker counts on what its last answer has said is over.
void Executor::settle_answered() {
  std::vector<SandboxId> answered;
  {
    const MutexLock lock(answered_mutex_);
    answered.swap(answered_);
  }
  for (const SandboxId id : answered) {
    Instance* instance = find(id);
    CHECK(instance != nullptr && instance->request != nullptr,
          "a request stays until it is settled");
    release(*instance);
    if (instance->is_removed) remove(id);
  }
}

}  // namespace lambent::executor
