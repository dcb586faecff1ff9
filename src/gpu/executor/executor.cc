#include "gpu/executor/executor.h"

#include <utility>

namespace lambent::executor {
namespace {

constexpr Duration kLookPeriod = milliseconds(250);

// Of what has no layers.
scheduling::PoolRule rule_of(ExecutorPool pool) {
  switch (pool) {
    case ExecutorPool::kResilient:
    case ExecutorPool::kLayered:
      break;
    case ExecutorPool::kFineGrained:
    case ExecutorPool::kLayeredFineGrained:
      return scheduling::PoolRule::kFineGrained;
    case ExecutorPool::kStatic:
      return scheduling::PoolRule::kStatic;
  }
  return scheduling::PoolRule::kResilient;
}

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
  RETURN_IF_ERROR(start_memory());
  start_kept_objects();
  RETURN_IF_ERROR(start_layers());
  start_requests();
  RETURN_IF_ERROR(start_instances());
  clients_.emplace(Clients::Dependencies{.loop = loop_,
                                         .driver = driver_,
                                         .context = context_,
                                         .watch = watch_,
                                         .shares = shares_,
                                         .links = {to_device_.get(), to_host_.get()}},
                   ordinal_, options_.forwarding, [this](const Error& error) {
                     // A kernel runs in the context for ever.
                     if (watch_.end()) end_broken(CUDA_ERROR_LAUNCH_TIMEOUT, error);
                   });
  watch_for_faults();
  return {};
}

Result<void> Executor::start_memory() {
  ASSIGN_OR_RETURN(pool_, MemoryPool::create(driver_, ordinal_));
  store_ = std::make_unique<DeviceStore>(*pool_, [this](ObjectId object) {
    connection_.send(protocol::ObjectHeld{object, Bytes(0)});
  });
  exports_.emplace(*store_, *pool_);
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
  MemoryTrimmer::Hooks trimming;
  trimming.is_idle = [this](SandboxId id) { return instances_->is_idle(id, options_.pool_hold); };
  trimming.on_returned = [this] { room_came(); };
  trimming.has_ended = [this] { return watch_.has_ended(); };
  trimmer_ = std::make_unique<MemoryTrimmer>(
      loop_, context_, *pool_, *store_,
      MemoryTrimmer::Options{.rule = rule_of(options_.pool), .hold = options_.pool_hold},
      std::move(trimming));
  return {};
}

void Executor::start_kept_objects() {
  KeptObjects::Hooks hooks;
  hooks.written = [this](ObjectId object, Result<OwnedFd> file) {
    if (watch_.has_ended()) return;
    protocol::ObjectWritten written{.object = object};
    std::vector<OwnedFd> fds;
    if (file.ok()) {
      fds.push_back(std::move(*file));
    } else {
      written.error = file.error();
    }
    connection_.send(std::move(written), std::move(fds));
  };
  hooks.progress = [this] {
    if (watch_.has_ended()) return;
    room_came();
    progress();
  };
  kept_ =
      std::make_unique<KeptObjects>(loop_, context_, *store_, *pool_, *to_host_, std::move(hooks));
}

Result<void> Executor::start_layers() {
  const bool wanted =
      options_.pool == ExecutorPool::kLayered || options_.pool == ExecutorPool::kLayeredFineGrained;
  if (!wanted) return {};
  LayeredMemory::Hooks hooks;
  hooks.progress = [this](SandboxId id) { requests_->layer_came(id); };
  hooks.make_room = [this](Bytes size) -> LayeredMemory::Room {
    store_->make_room(size);
    if (pool_->free() < size) kept_->make_room();
    const auto leaving = pool_->begin_unmapping(size);
    if (leaving.empty()) return {};
    return {.give = [this, leaving] { pool_->unmap(leaving); },
            .then = [this, leaving] { pool_->forget(leaving); }};
  };
  hooks.waits = [this] {
    return !exports_->empty() || trimmer_->is_returning() || kept_->is_writing();
  };
  ASSIGN_OR_RETURN(layers_, LayeredMemory::create(loop_, driver_, context_, ordinal_,
                                                  {.rule = rule_of(options_.pool),
                                                   .interval = options_.pool_interval,
                                                   .hold = options_.pool_hold},
                                                  std::move(hooks)));
  return {};
}

void Executor::start_requests() {
  requests_ = std::make_unique<Requests>(
      Requests::Dependencies{.loop = loop_,
                             .driver = driver_,
                             .context = context_,
                             .watch = watch_,
                             .connection = connection_,
                             .store = *store_,
                             .contents = *contents_,
                             .layers = layers_.get(),
                             .exports = *exports_,
                             .kept = *kept_,
                             .to_device = *to_device_,
                             .to_host = *to_host_},
      options_.pipelined,
      Requests::Hooks{.ended = [this](SandboxId id) { instances_->request_ended(id); },
                      .progress = [this] { progress(); }});
}

Result<void> Executor::start_instances() {
  ASSIGN_OR_RETURN(const auto capability, context_.compute_capability());
  InstanceLoader::Options loading;
  loading.multiprocessors = shares_.multiprocessors();
  loading.device_loops = options_.device_loops;
  loading.blas_libraries = options_.blas_libraries;
  loading.pages = layers_ != nullptr ? &layers_->pages() : nullptr;
  instances_ = std::make_unique<Instances>(
      Instances::Dependencies{.loop = loop_,
                              .context = context_,
                              .watch = watch_,
                              .connection = connection_,
                              .pool = *pool_,
                              .store = *store_,
                              .contents = *contents_,
                              .layers = layers_.get(),
                              .trimmer = *trimmer_,
                              .shares = shares_,
                              .requests = *requests_,
                              .kept = *kept_},
      std::make_unique<InstanceLoader>(driver_, ordinal_, capability, std::move(loading)),
      Instances::Options{.pipelined = options_.pipelined,
                         .reserves = options_.pool == ExecutorPool::kStatic});
  return {};
}

// Work on other threads ends before what it uses goes.
Executor::~Executor() {
  clients_.reset();
  if (instances_ != nullptr) instances_->stop();
  if (requests_ != nullptr) requests_->stop();
  trimmer_.reset();
  kept_.reset();
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

void Executor::progress() {
  instances_->progress();
  requests_->progress();
}

void Executor::room_came() {
  if (layers_ != nullptr) layers_->room_came();
}

void Executor::watch_for_faults() {
  loop_.call_after(kLookPeriod, [this] {
    if (watch_.has_ended()) return;
    requests_->settle_answered();
    requests_->look_for_faults();
    if (watch_.has_ended()) return;
    clients_->look_for_faults();
    if (watch_.has_ended()) return;
    watch_for_faults();
  });
}

void Executor::context_broke(const ContextWatch::Fault& fault) {
  // What was answered before is over, and its instance may go.
  requests_->settle_answered();
  watch_.end();
  // A kernel of a client may have done it as well.
  if (fault.suspect && !clients_->has_unfinished_kernels()) {
    requests_->blame(*fault.suspect, fault.error);
  }
  end_broken(fault.state, fault.error);
}

void Executor::end_broken(CUresult state, const Error& error) {
  connection_.send(protocol::Broken{error});
  connection_.flush();
  // What a client makes of it reaches the worker after our word.
  clients_->tell_broken(state);
  on_end_(1);
}

}  // namespace lambent::executor
