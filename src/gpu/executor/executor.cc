#include "gpu/executor/executor.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"

namespace lambent::executor {
namespace {

constexpr Duration kLookPeriod = milliseconds(250);

}  // namespace

Result<std::unique_ptr<Executor>> Executor::create(loop::EventLoop& loop,
                                                   const cuda::Driver& driver,
                                                   const cuda::Context& context, OwnedFd socket,
                                                   int ordinal, ExecutorOptions options,
                                                   std::function<void(int)> on_end) {
  std::unique_ptr<Executor> executor(new Executor(loop, driver, context, std::move(socket), ordinal,
                                                  std::move(options), std::move(on_end)));
  RETURN_IF_ERROR(executor->start());
  return executor;
}

Executor::Executor(loop::EventLoop& loop, const cuda::Driver& driver, const cuda::Context& context,
                   OwnedFd socket, int ordinal, ExecutorOptions options,
                   std::function<void(int)> on_end)
    : loop_(loop),
      driver_(driver),
      context_(context),
      ordinal_(ordinal),
      options_(std::move(options)),
      on_end_(std::move(on_end)),
      watch_([&driver] { return driver->stream_query(nullptr); },
             [this](const ContextWatch::Fault& fault) { context_broke(fault); }),
      connection_(
          loop, std::move(socket),
          [this](protocol::ExecutorMessage message, std::vector<OwnedFd> fds) {
            handle(std::move(message), std::move(fds));
          },
          [this] {
            if (watch_.end()) on_end_(0);
          }),
      shares_(driver, ordinal) {}

Result<void> Executor::start() {
  ASSIGN_OR_RETURN(const auto capability, context_.compute_capability());
  ASSIGN_OR_RETURN(pool_, MemoryPool::create(driver_, ordinal_));
  store_ = std::make_unique<DeviceStore>(*pool_, [this](ObjectId object) {
    connection_.send(protocol::ObjectHeld{object, Bytes(0)});
  });
  exports_.emplace(*store_, *pool_);
  trimmer_ = std::make_unique<MemoryTrimmer>(
      loop_, context_, *pool_, *store_,
      MemoryTrimmer::Options{.rule = rule(), .hold = options_.pool_hold},
      MemoryTrimmer::Hooks{.is_idle = [this](SandboxId id) { return is_idle(id); },
                           .on_returned =
                               [this] {
                                 if (layers_ != nullptr) layers_->room_came();
                               },
                           .has_ended = [this] { return watch_.has_ended(); }});
  InstanceLoader::Options loading;
  loading.multiprocessors = shares_.multiprocessors();
  loading.device_loops = options_.device_loops;
  loading.blas_libraries = options_.blas_libraries;
  RETURN_IF_ERROR(use_layers());
  loading.pages = layers_ != nullptr ? &layers_->pages() : nullptr;
  loader_ = std::make_unique<InstanceLoader>(driver_, ordinal_, capability, std::move(loading));
  for (auto* thread : {&loads_, &decodes_, &answers_}) {
    *thread = std::make_unique<DeviceThread>(loop_, context_);
  }
  const auto& transfers = options_.transfers;
  ASSIGN_OR_RETURN(to_device_, TransferEngine::create(loop_, driver_, context_,
                                                      LinkDirection::kToDevice, transfers));
  ASSIGN_OR_RETURN(to_host_, TransferEngine::create(loop_, driver_, context_,
                                                    LinkDirection::kToHost, transfers));
  Contents::Hooks hooks;
  hooks.open = [this](ObjectId object) { connection_.send(protocol::OpenObject{object}); };
  hooks.export_ended = [this](ObjectId object) { connection_.send(protocol::ExportEnded{object}); };
  hooks.arrived = [this](ObjectId object, Bytes held) {
    connection_.send(protocol::ObjectHeld{object, held});
  };
  hooks.progress = [this] { progress(); };
  ASSIGN_OR_RETURN(importer_, Importer::create(loop_, driver_, ordinal_));
  contents_ = std::make_unique<Contents>(*store_, *to_device_, importer_.get(), std::move(hooks));
  look_after_requests();
  return {};
}

Executor::~Executor() {
  forward_.reset();
  // Work on other threads ends before what it uses goes.
  loads_.reset();
  decodes_.reset();
  answers_.reset();
  trimmer_.reset();
  to_device_.reset();
  to_host_.reset();
  layers_.reset();
}

void Executor::say_hello(Duration context_time) {
  // Of one that does not say, nothing can be imported.
  auto peers = cuda::peers_of(driver_, ordinal_);
  connection_.send(
      protocol::ExecutorHello{.context_time = context_time,
                              .peers = peers.ok() ? std::move(*peers) : std::vector<uint32_t>()});
}

void Executor::handle(protocol::ExecutorMessage message, std::vector<OwnedFd> fds) {
  if (watch_.has_ended()) return;
  settle_answered();
  std::visit([&](auto& each) { handle(std::move(each), std::move(fds)); }, message);
}

Executor::Instance* Executor::find(SandboxId id) {
  const auto found = instances_.find(id);
  return found == instances_.end() ? nullptr : found->second.get();
}

Executor::Instance* Executor::find_request(SandboxId id, uint64_t request) {
  Instance* instance = find(id);
  const bool is_there = instance != nullptr && instance->request != nullptr;
  return is_there && instance->request->number == request ? instance : nullptr;
}

// A content came nearer, or failed: whoever waits for some looks again.
void Executor::progress() {
  const auto waits_for_contents = [](const Instance& instance) {
    return instance.request != nullptr &&
           (instance.request->stage == RequestUnderWay::Stage::kContents ||
            instance.request->awaits_constant);
  };
  std::vector<SandboxId> waiting;
  for (const auto& [id, instance] : instances_) {
    if (instance->is_arriving || waits_for_contents(*instance)) waiting.push_back(id);
  }
  for (const SandboxId id : waiting) {
    if (Instance* instance = find(id); instance != nullptr && instance->is_arriving)
      arrive(*instance);
    Instance* instance = find(id);
    if (watch_.has_ended() || instance == nullptr || !waits_for_contents(*instance)) continue;
    if (instance->request->awaits_constant) {
      advance(*instance);
    } else {
      gather(*instance);
    }
  }
}

void Executor::context_broke(const ContextWatch::Fault& fault) {
  // What was answered before is over, and its instance may go.
  settle_answered();
  Instance* instance = fault.suspect ? find(*fault.suspect) : nullptr;
  watch_.end();
  // Every stream tells of it, and every call: only one that is under way alone, with no kernel of
  // a client beside it, is known to have done it.
  const auto under_way = std::count_if(instances_.begin(), instances_.end(), [](const auto& entry) {
    return entry.second->request != nullptr;
  });
  if (instance != nullptr && instance->request != nullptr && !instance->is_removed &&
      under_way == 1 && (forward_ == nullptr || !forward_->has_unfinished_kernels())) {
    protocol::Finished finished;
    finished.invocation = instance->request->message.invocation;
    finished.error = fault.error;
    connection_.send(std::move(finished));
  }
  connection_.send(protocol::Broken{fault.error});
  connection_.flush();
  // What a client makes of it reaches the worker after our word.
  if (forward_ != nullptr) forward_->tell_broken(fault.state);
  on_end_(1);
}

void Executor::look_after_requests() {
  loop_.call_after(kLookPeriod, [this] {
    if (watch_.has_ended()) return;
    settle_answered();
    for (const auto& [id, instance] : instances_) {
      if (instance->request == nullptr || instance->loaded == nullptr) continue;
      const auto idle = instance->loaded->stream().is_idle();
      if (!idle.ok() && watch_.end_if_broken(idle.error(), id)) return;
    }
    look_after_clients();
    if (watch_.has_ended()) return;
    look_after_requests();
  });
}

}  // namespace lambent::executor
