#include "node/worker/sandbox_hand_over.h"

#include <algorithm>
#include <utility>

#include "core/crypto/crypto.h"
#include "node/sandbox/message.h"
#include "node/worker/sandbox_plan.h"

namespace lambent::worker {

namespace {

std::vector<DeviceId> devices_of(const KeptSandbox& sandbox) {
  return sandbox.gpu ? sandbox.gpu->devices : std::vector<DeviceId>();
}

// What the worker makes for one sandbox.
bool is_its_own(const sandbox::Bind& bind) {
  return bind.sandbox_path.starts_with(kLedgerFile) || bind.sandbox_path == kMemorySocket ||
         bind.sandbox_path == kLinkSocket;
}

}  // namespace

std::string digest_of(sandbox::LaunchPlan plan) {
  plan.sandbox = {};
  for (sandbox::Bind& bind : plan.binds) {
    if (is_its_own(bind)) bind.host_path.clear();
  }
  plan.environment.erase("AWS_LAMBDA_LOG_STREAM_NAME");
  const crypto::Digest digest = crypto::sha256(encode(sandbox::LaunchRequest{std::move(plan)}));
  return std::string(crypto::bytes_of(digest));
}

// ---- From the program before

size_t SandboxHandOver::count(FunctionId function, const std::string& plan) const {
  return static_cast<size_t>(
      std::ranges::count_if(inherited_.record.sandboxes, [&](const KeptSandbox& each) {
        return each.function == function && each.plan == plan && !each.gpu;
      }));
}

std::vector<std::vector<DeviceId>> SandboxHandOver::devices_of(FunctionId function) const {
  std::vector<std::vector<DeviceId>> all;
  for (const KeptSandbox& each : inherited_.record.sandboxes) {
    if (each.function == function && each.gpu) all.push_back(each.gpu->devices);
  }
  return all;
}

std::optional<SandboxHandOver::Inherited> SandboxHandOver::take(
    SandboxId sandbox, FunctionId function, const std::string& plan, bool has_runtime_api,
    const std::vector<DeviceId>& devices) {
  std::vector<KeptSandbox>& all = inherited_.record.sandboxes;
  while (true) {
    const auto found = std::ranges::find_if(all, [&](const KeptSandbox& each) {
      return each.function == function && each.plan == plan &&
             each.listener.has_value() == has_runtime_api && worker::devices_of(each) == devices;
    });
    if (found == all.end()) return std::nullopt;
    Inherited taken{.sandbox = std::move(*found)};
    all.erase(found);
    if (!launcher_.adopt(sandbox, taken.sandbox.launcher, taken.sandbox.number)) continue;
    taken.listener = inherited_.take(taken.sandbox.listener);
    taken.waiting = inherited_.take(taken.sandbox.waiting);
    taken.output = inherited_.take(taken.sandbox.output);
    taken.refusals = inherited_.take(taken.sandbox.refusals);
    taken.resting = inherited_.take(taken.sandbox.resting);
    taken.memory = inherited_.take(taken.sandbox.memory);
    take_gpu(taken);
    return taken;
  }
}

void SandboxHandOver::take_gpu(Inherited& taken) {
  if (!taken.sandbox.gpu) return;
  const KeptGpu& gpu = *taken.sandbox.gpu;
  taken.ledgers = inherited_.take(gpu.ledgers);
  if (!gpu.memory) return;
  const KeptMemory& memory = *gpu.memory;
  taken.link = inherited_.take(memory.link);
  taken.moves = HandedOverMemory{.listener = inherited_.take(memory.listener),
                                 .processes = inherited_.take(memory.processes),
                                 .sequence = memory.sequence,
                                 .place = {.is_out = memory.is_out,
                                           .deep = memory.deep,
                                           .left = memory.left,
                                           .offloaded = memory.offloaded}};
}

size_t SandboxHandOver::end_inherited() {
  const size_t left = inherited_.record.sandboxes.size();
  inherited_ = {};
  launcher_.end_unadopted();
  return left;
}

// ---- To the next program

std::optional<DescriptorNumber> SandboxHandOver::add(OwnedFd descriptor) {
  if (!descriptor.valid()) return std::nullopt;
  descriptors_.push_back(std::move(descriptor));
  return static_cast<DescriptorNumber>(descriptors_.size() - 1);
}

std::vector<DescriptorNumber> SandboxHandOver::add(std::vector<OwnedFd> descriptors) {
  std::vector<DescriptorNumber> numbers;
  for (OwnedFd& each : descriptors) {
    if (const auto number = add(std::move(each))) numbers.push_back(*number);
  }
  return numbers;
}

KeptSandboxes SandboxHandOver::finish() {
  KeptSandboxes all;
  std::vector<SandboxId> ids;
  for (const Kept& each : kept_) ids.push_back(each.sandbox);
  if (ids.empty()) return all;
  std::vector<sandbox::HandedOverLauncher> launchers = launcher_.hand_over(ids);
  all.descriptors = std::exchange(descriptors_, {});
  for (sandbox::HandedOverLauncher& launcher : launchers) {
    const auto place = static_cast<uint32_t>(all.record.launchers.size());
    all.record.launchers.push_back(
        {.pid = launcher.pid, .channel = static_cast<DescriptorNumber>(all.descriptors.size())});
    all.descriptors.push_back(std::move(launcher.channel));
    for (const sandbox::HandedOverLauncher::Kept& stays : launcher.kept) {
      const auto found = std::ranges::find_if(
          kept_, [&](const Kept& each) { return each.sandbox == stays.sandbox; });
      if (found == kept_.end()) continue;
      KeptSandbox& kept = all.record.sandboxes.emplace_back(std::move(found->kept));
      kept.launcher = place;
      kept.number = stays.number;
    }
  }
  kept_.clear();
  return all;
}

}  // namespace lambent::worker
