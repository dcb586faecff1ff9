// The part of ExecutorHost that hears what executors say of requests: answers and their objects,
// and what kernels print.
#include <algorithm>
#include <utility>

#include "core/domain/limits.h"
#include "node/runtime_api/error_type.h"
#include "node/worker/executor_host.h"

namespace lambent::worker {
namespace {

std::string_view error_type_of(ErrorCode code, protocol::ErrorSubject subject) {
  if (subject == protocol::ErrorSubject::kFailedInput) return "Object.Failed";
  // The executor that may have it could not be asked.
  const bool of_input = subject == protocol::ErrorSubject::kInput;
  if (of_input && code == ErrorCode::kUnavailable) return "Object.Unavailable";
  switch (code) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kOutOfRange:
      return "Request.Invalid";
    case ErrorCode::kNotFound:
      return "Object.NotFound";
    case ErrorCode::kDeadlineExceeded:
      return "Object.NotThere";
    case ErrorCode::kResourceExhausted:
      return "Kernel.ResourceExhausted";
    case ErrorCode::kUnknown:
    case ErrorCode::kAborted:
    case ErrorCode::kCancelled:
    case ErrorCode::kDataLoss:
      return "Object.Failed";
    default:
      return "Kernel.Fault";
  }
}

std::string milliseconds_text(Duration duration) {
  const int64_t hundredths = (duration.count() + 5'000) / 10'000;
  const std::string fraction = std::to_string(100 + hundredths % 100);
  return std::to_string(hundredths / 100) + "." + fraction.substr(1) + " ms";
}

// Stores what became objects, all of which there is before the answer; or why there is none.
Result<void> take_results(ExecutorObjects& objects, const KernelInstance& instance,
                          AnswerCopy& copy, std::vector<OwnedFd> fds) {
  if (auto taken = copy.take(fds); !taken.ok()) {
    objects.discard(instance.key, copy.message().objects, 0);
    return taken;
  }
  return objects.store(instance.key, copy.message(), std::move(fds), instance.time_to_live);
}

}  // namespace

void ExecutorHost::heard(const Key& key, protocol::ExecutorMessage message,
                         std::vector<OwnedFd> fds) {
  if (auto* finish = std::get_if<protocol::Finished>(&message)) {
    finished(key, std::move(*finish), std::move(fds));
  } else if (const auto* ready = std::get_if<protocol::InstanceReady>(&message)) {
    on(key, *ready);
  } else if (const auto* failed = std::get_if<protocol::InstanceFailed>(&message)) {
    on(key, *failed);
  } else if (const auto* moved = std::get_if<protocol::InstanceMoved>(&message)) {
    on(key, *moved);
  } else if (const auto* open = std::get_if<protocol::OpenObject>(&message)) {
    objects_.on(key, *open);
  } else if (const auto* shared = std::get_if<protocol::ObjectShared>(&message)) {
    objects_.on(key, *shared, std::move(fds));
  } else if (const auto* held = std::get_if<protocol::ObjectHeld>(&message)) {
    objects_.on(key, *held);
  } else if (const auto* written = std::get_if<protocol::ObjectWritten>(&message)) {
    objects_.on(key, *written, std::move(fds));
  } else if (const auto* object_export = std::get_if<protocol::ExportEnded>(&message)) {
    objects_.on(key, *object_export);
  } else {
    supervisor_.end_broken(
        key, {ErrorCode::kInternal, "lambent-executor sent what only the worker says"});
  }
}

void ExecutorHost::finished(const Key& key, protocol::Finished message, std::vector<OwnedFd> fds) {
  Instance* instance = instances_.given(key, message.invocation);
  // It has not been sent, or is answered already.
  const bool runs = instance != nullptr && instance->runs();
  if (!runs) return objects_.discard(key, message.objects, 0);
  objects_.may_release(key);
  instance->device_memory = message.device_memory;
  instance->device_memory_peak = std::max(instance->device_memory, message.device_memory_peak);
  if (instance->end_words) {
    // It was stopped, and what it ran has ended in time.
    objects_.discard(key, message.objects, 0);
    return end(instance->id, *instance->end_words, false);
  }
  const auto copy = std::make_shared<AnswerCopy>(std::move(message));
  const auto taken = take_results(objects_, *instance, *copy, std::move(fds));
  instance->answer = copy;
  if (!taken.ok() || copy->size() == Bytes(0)) {
    answer_copied(instance->id, copy, taken.ok() ? copy->read() : taken.error());
  } else {
    const auto payload = std::make_shared<Result<std::string>>(std::string());
    copies_.start(
        copy->size(), [copy, payload] { *payload = copy->read(); },
        [this, id = instance->id, copy, payload, alive = std::weak_ptr(alive_)] {
          if (!alive.expired()) answer_copied(id, copy, std::move(*payload));
        });
  }
  // What it ran is over, whether its answer is copied yet or not.
  send_waiting(key);
}

void ExecutorHost::answer_copied(SandboxId id, const std::shared_ptr<AnswerCopy>& copy,
                                 Result<std::string> payload) {
  Instance* instance = instances_.find(id);
  // It was stopped meanwhile, or its executor has ended and it was answered then.
  if (instance == nullptr || instance->answer != copy || instance->end_words) return;
  instance->answer.reset();
  answer(*instance, copy->message(), std::move(payload));
  // It does not have the share that it was given: the next one starts with it, or says why not.
  instance = instances_.find(id);
  if (instance != nullptr && instance->share_failed) leave(*instance, *instance->share_failed);
}

void ExecutorHost::answer(Instance& instance, const protocol::Finished& message,
                          Result<std::string> payload) {
  instances_.answered(instance);
  HandlerAnswer answer;
  answer.invocation = message.invocation;
  answer.succeeded = payload.ok();
  answer.execution = loop_.clock().now() - instance.given_at;
  const std::string id = to_string(message.invocation);
  if (payload.ok()) {
    answer.payload = std::move(payload).value();
  } else {
    answer.error = payload.error();
    answer.error_type = error_type_of(payload.error().code, message.subject);
    answer.payload = runtime_api::error_json(answer.error_type, to_string(payload.error()));
    instance.tail.append("ERROR RequestId: " + id + " " + to_string(payload.error()) + "\n");
  }
  instance.tail.append("END RequestId: " + id + "\nREPORT RequestId: " + id +
                       "\tDuration: " + milliseconds_text(answer.execution) +
                       "\tObjects: " + milliseconds_text(message.objects_time) +
                       "\tCopy In: " + milliseconds_text(message.copy_in_time) +
                       "\tRun: " + milliseconds_text(message.run_time) +
                       "\tCopy Out: " + milliseconds_text(message.copy_out_time) + "\n");
  answer.device_memory_now = instance.device_memory;
  answer.device_memory_peak = instance.device_memory_peak;
  answer.log_tail = instance.tail.text();
  instance.observer.on_output(instance.spec.id, answer.log_tail);
  instance.observer.on_answer(instance.id, std::move(answer));
}

// What a kernel prints. Whose it is can only be said while one runs by itself.
void ExecutorHost::printed(const Key& key, std::string_view text) {
  Instance* only = instances_.only_busy(key);
  if (only != nullptr) return only->tail.append(text);
  log_.info("executor_printed", {{"gpu", static_cast<int64_t>(key.device.value) - 1},
                                 {"text", std::string(text.substr(0, limits::kLogTail.count))}});
}

}  // namespace lambent::worker
